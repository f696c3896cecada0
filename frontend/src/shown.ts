// Which nodes and edges pass the filters, and what can be said of them.

import { errorOf, isKnown, type Graph, type Page } from "./page";
import type { State } from "./state";

export interface Shown {
  nodes: Uint8Array; // 1: shown
  edges: Uint8Array;
  nodeCount: number;
  edgeCount: number;
  degree: Uint32Array; // shown edges at each node, in and out
}

export function shown(page: Page, state: State, worst: number): Shown {
  const graph = page.graphs[state.graph];
  const nodes = new Uint8Array(page.nodes);
  let nodeCount = 0;
  for (let i = 0; i < page.nodes; i++) nodeCount += nodes[i] = passes(page, state, worst, i) ? 1 : 0;
  const least = Math.fround(state.threshold); // probabilities are single precision: 0.7 must find 0.7
  const edges = new Uint8Array(graph.source.length);
  const degree = new Uint32Array(page.nodes);
  let edgeCount = 0;
  for (let e = 0; e < edges.length; e++) {
    const a = graph.source[e];
    const b = graph.target[e];
    if (graph.probability[e] < least || !nodes[a] || !nodes[b]) continue;
    edges[e] = 1;
    edgeCount++;
    degree[a]++;
    degree[b]++;
  }
  return { nodes, edges, nodeCount, edgeCount, degree };
}

function passes(page: Page, state: State, worst: number, node: number): boolean {
  if (page.classes.length && page.label && state.hiddenClasses.has(page.label[node])) return false;
  if (page.split && state.hiddenSplits.has(page.split.codes[node])) return false;
  return !state.onlyErrors || errorOf(page, node) >= worst;
}

/** An error is a wrong class; for numbers, one of the tenth of the nodes that are farthest off. */
export function worstError(page: Page): number {
  if (page.classes.length) return 1;
  const sizes: number[] = [];
  for (let i = 0; i < page.nodes; i++) {
    const size = errorOf(page, i);
    if (!Number.isNaN(size)) sizes.push(size);
  }
  sizes.sort((a, b) => b - a);
  return sizes.length ? sizes[Math.max(0, Math.ceil(sizes.length / 10) - 1)] : Infinity;
}

/** Share of the shown edges whose ends have the same class; null if no edge has two known ends. */
export function homophily(page: Page, graph: Graph, edges: Uint8Array): number | null {
  const label = page.label;
  if (!label || !page.classes.length) return null;
  let same = 0;
  let known = 0;
  for (let e = 0; e < edges.length; e++) {
    const a = label[graph.source[e]];
    const b = label[graph.target[e]];
    if (!edges[e] || a < 0 || b < 0) continue;
    known++;
    if (a === b) same++;
  }
  return known ? same / known : null;
}

/** Correlation of the labels at the two ends of the shown edges, where numbers are predicted. */
export function correlation(page: Page, graph: Graph, edges: Uint8Array): number | null {
  const label = page.label;
  if (!label || page.classes.length) return null;
  let [n, a1, b1, aa, bb, ab] = [0, 0, 0, 0, 0, 0];
  for (let e = 0; e < edges.length; e++) {
    const a = label[graph.source[e]];
    const b = label[graph.target[e]];
    if (!edges[e] || Number.isNaN(a) || Number.isNaN(b)) continue;
    n++;
    a1 += a;
    b1 += b;
    aa += a * a;
    bb += b * b;
    ab += a * b;
  }
  const spread = Math.sqrt((aa - (a1 * a1) / n) * (bb - (b1 * b1) / n));
  return n > 1 && spread > 0 ? (ab - (a1 * b1) / n) / spread : null;
}

/** Wrong predictions among the shown nodes whose label is known. */
export function errors(page: Page, nodes: Uint8Array): { wrong: number; known: number } | null {
  if (!page.label || !page.prediction || !page.classes.length) return null;
  let wrong = 0;
  let known = 0;
  for (let i = 0; i < page.nodes; i++) {
    if (!nodes[i] || !isKnown(page.label, i)) continue;
    known++;
    wrong += errorOf(page, i) === 1 ? 1 : 0;
  }
  return { wrong, known };
}

/** The threshold at which a graph is shown first: about three edges for each node, but always the more probable half of the scale. */
export function firstThreshold(graph: Graph, nodes: number): number {
  const sorted = Float32Array.from(graph.probability).sort();
  const hidden = sorted.length - 3 * nodes;
  if (hidden <= 0 || sorted[0] === sorted[sorted.length - 1]) return 0;
  const half = sorted[sorted.length - 1] / 2;
  return Math.floor(100 * Math.min(half, sorted[hidden])) / 100;
}
