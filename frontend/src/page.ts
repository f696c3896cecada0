// What a page holds, after decoding. Nodes are numbered from 0; edges too, in the order of the nodes that chose them.

import { digits } from "./format";

export interface NumberColumn {
  kind: "number";
  name: string;
  values: Float64Array | Float32Array; // NaN: missing
  decimals: number; // -1: unknown
}

export interface TextColumn {
  kind: "text";
  name: string;
  codes: Uint8Array | Uint16Array | Uint32Array; // levels.length: missing
  levels: string[];
}

export type Column = NumberColumn | TextColumn;

export interface Graph {
  name: string;
  meaning: string;
  source: Uint32Array; // of edge e: the node that was chosen
  target: Uint32Array; // of edge e: the node that chose it
  probability: Float32Array;
  highest: number; // probability
  chosen: Uint32Array; // edges chosen[i] .. chosen[i + 1] go into node i, most probable first
  choosers: Uint32Array; // choosing[choosers[i] .. choosers[i + 1]] are the edges out of node i, most probable first
  choosing: Uint32Array;
  place: Float32Array; // x0, y0, x1, y1, ...
}

export interface Page {
  title: string;
  nodes: number;
  names: string[];
  target: string;
  classes: string[]; // empty: numbers are predicted
  label: Int32Array | Float64Array | null; // below 0 or NaN: unknown
  prediction: Int32Array | Float64Array | null;
  probability: Float32Array | null; // nodes x classes
  split: TextColumn | null;
  graphs: Graph[];
  columns: Column[];
  notes: string[];
}

export const LARGE = 20_000; // nodes; above, points only, and the edges of the node that was clicked

export function isKnown(values: Int32Array | Float64Array, node: number): boolean {
  return values instanceof Int32Array ? values[node] >= 0 : !Number.isNaN(values[node]);
}

/** 1 if the prediction is wrong, 0 if it is right, -1 if nobody knows. For numbers: the size of the error, or NaN. */
export function errorOf(page: Page, node: number): number {
  const { label, prediction } = page;
  if (page.classes.length === 0) return label && prediction ? Math.abs(label[node] - prediction[node]) : NaN;
  if (!label || !prediction || label[node] < 0 || prediction[node] < 0) return -1;
  return label[node] === prediction[node] ? 0 : 1;
}

/** Label or prediction in words. */
export function answer(page: Page, values: Int32Array | Float64Array | null, node: number): string {
  if (!values || !isKnown(values, node)) return "unknown";
  return page.classes.length ? page.classes[values[node]] : digits(values[node], 5);
}

export function cell(column: Column, node: number): string {
  if (column.kind === "text") return column.levels[column.codes[node]] ?? "";
  const value = column.values[node];
  if (Number.isNaN(value)) return "";
  return column.decimals >= 0 ? String(value) : String(Number(value.toPrecision(7)));
}
