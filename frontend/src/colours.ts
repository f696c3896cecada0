// Colours that most people can tell apart: Okabe and Ito's eight for classes, one that grows darker or lighter for numbers.

import { answer, errorOf, isKnown, type Column, type Page } from "./page";
import { digits, short } from "./format";

const CLASSES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
const OTHER = "#8a94a3";
const UNKNOWN = { light: "#c3cad4", dark: "#4d5868" };
const RIGHT = { light: "#9fb3c8", dark: "#5f7288" };
const WRONG = "#d55e00";
// Violet to green, growing lighter all the way; the ends keep away from the background.
const SCALE = {
  light: ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39"],
  dark: ["#7466c9", "#4b84c4", "#2f9bb3", "#33b393", "#75cc5c", "#d3e141"],
};
const STEPS = 64;

export interface Entry {
  colour: string;
  name: string;
  count: number;
}

export interface Colouring {
  of(node: number): string;
  legend: { kind: "classes"; entries: Entry[] } | { kind: "numbers"; scale: string[]; low: string; high: string; missing: number };
}

export interface ColourChoice {
  id: string;
  name: string;
  group: string;
}

export function choices(page: Page): ColourChoice[] {
  const result = (id: string, name: string) => ({ id, name, group: "Result" });
  const found: ColourChoice[] = [];
  if (page.label) found.push(result("label", page.target));
  if (page.prediction) found.push(result("prediction", "prediction"));
  if (page.label && page.prediction) found.push(result("error", "error"));
  if (page.probability) found.push(result("confidence", "confidence"));
  if (page.split) found.push(result("split", "split"));
  found.push(result("degree", "degree"));
  page.columns.forEach((column, i) => found.push({ id: `column ${i}`, name: column.name, group: "Table" }));
  return found;
}

export function colouring(page: Page, id: string, dark: boolean, degree: Uint32Array): Colouring {
  const nodes = page.nodes;
  switch (id) {
    case "label":
    case "prediction": {
      const values = page[id]!;
      if (!page.classes.length) return byNumber((i) => values[i], nodes, dark);
      return byClass((i) => (isKnown(values, i) ? values[i] : page.classes.length), page.classes, nodes, dark, false);
    }
    case "error":
      if (!page.classes.length) return byNumber((i) => errorOf(page, i), nodes, dark);
      return rightOrWrong(page, dark);
    case "confidence":
      return byNumber((i) => confidence(page, i), nodes, dark);
    case "split":
      return byClass((i) => page.split!.codes[i], page.split!.levels, nodes, dark, false);
    case "degree":
      return byNumber((i) => degree[i], nodes, dark);
    default:
      return byColumn(page.columns[Number(id.split(" ")[1])], nodes, dark);
  }
}

export function confidence(page: Page, node: number): number {
  const c = page.classes.length;
  let best = 0;
  for (let j = 0; j < c; j++) best = Math.max(best, page.probability![node * c + j]);
  return best;
}

/** Colours of the classes themselves, for bars and lists, whatever the nodes are coloured by. */
export function classColour(index: number): string {
  return CLASSES[index] ?? OTHER;
}

/** The label of a node in a list; a guess, with a question mark, where it is unknown. */
export function answerText(page: Page, node: number): string {
  const words = (values: Int32Array | Float64Array) =>
    page.classes.length ? answer(page, values, node) : digits(values[node], 3);
  if (page.label && isKnown(page.label, node)) return words(page.label);
  return page.prediction ? `${words(page.prediction)}?` : "";
}

function unknown(dark: boolean): string {
  return dark ? UNKNOWN.dark : UNKNOWN.light;
}

function byColumn(column: Column, nodes: number, dark: boolean): Colouring {
  if (column.kind === "number") return byNumber((i) => column.values[i], nodes, dark);
  return byClass((i) => column.codes[i], column.levels, nodes, dark, true);
}

/** Few classes keep their order; of many, the most frequent get colours and the others share one. */
function byClass(code: (node: number) => number, levels: string[], nodes: number, dark: boolean, rank: boolean): Colouring {
  const counts = new Uint32Array(levels.length + 1);
  for (let i = 0; i < nodes; i++) counts[code(i)]++;
  const order = [...levels.keys()];
  if (rank && levels.length > CLASSES.length) order.sort((a, b) => counts[b] - counts[a] || a - b);
  const colours = new Array<string>(levels.length + 1).fill(OTHER);
  colours[levels.length] = unknown(dark);
  const entries: Entry[] = [];
  for (const level of order.slice(0, CLASSES.length)) {
    colours[level] = CLASSES[entries.length];
    entries.push({ colour: colours[level], name: levels[level], count: counts[level] });
  }
  const others = order.slice(CLASSES.length);
  if (others.length === 1) entries.push({ colour: OTHER, name: levels[others[0]], count: counts[others[0]] });
  if (others.length > 1) {
    const total = others.reduce((sum, level) => sum + counts[level], 0);
    entries.push({ colour: OTHER, name: `${others.length} others`, count: total });
  }
  if (counts[levels.length]) entries.push({ colour: unknown(dark), name: "unknown", count: counts[levels.length] });
  return { of: (i) => colours[code(i)], legend: { kind: "classes", entries } };
}

function rightOrWrong(page: Page, dark: boolean): Colouring {
  const colours = [unknown(dark), dark ? RIGHT.dark : RIGHT.light, WRONG];
  const counts = [0, 0, 0];
  for (let i = 0; i < page.nodes; i++) counts[errorOf(page, i) + 1]++;
  const entries = ["unknown", "right", "wrong"].map((name, i) => ({ name, colour: colours[i], count: counts[i] }));
  return { of: (i) => colours[errorOf(page, i) + 1], legend: { kind: "classes", entries: entries.reverse().filter((e) => e.count) } };
}

/** Colours from the 1st to the 99th percentile: one extreme value must not take the colour from all others. */
function byNumber(value: (node: number) => number, nodes: number, dark: boolean): Colouring {
  const known: number[] = [];
  let missing = 0;
  for (let i = 0; i < nodes; i++) {
    if (Number.isFinite(value(i))) known.push(value(i));
    else if (Number.isNaN(value(i))) missing++;
  }
  known.sort((a, b) => a - b);
  const at = (q: number) => known[Math.round(q * (known.length - 1))] ?? NaN;
  const wide = at(0.99) > at(0.01);
  const [low, high] = wide ? [at(0.01), at(0.99)] : [at(0), at(1)];
  const scale = steps(dark ? SCALE.dark : SCALE.light);
  const of = (i: number) => {
    const v = value(i);
    if (Number.isNaN(v)) return unknown(dark);
    const share = high > low ? (v - low) / (high - low) : 0.5;
    return scale[Math.round(Math.min(1, Math.max(0, share)) * (STEPS - 1))];
  };
  const ends = { low: (at(0) < low ? "≤ " : "") + short(low), high: (at(1) > high ? "≥ " : "") + short(high) };
  return { of, legend: { kind: "numbers", scale, ...ends, missing } };
}

function steps(stops: string[]): string[] {
  const parts = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: STEPS }, (_, i) => {
    const where = (i / (STEPS - 1)) * (stops.length - 1);
    const before = Math.min(Math.floor(where), stops.length - 2);
    const mix = parts[before].map((from, c) => Math.round(from + (parts[before + 1][c] - from) * (where - before)));
    return "#" + mix.map((c) => c.toString(16).padStart(2, "0")).join("");
  });
}
