// Rows as CSV.

import type { App } from "./app";
import { answer, cell, isKnown, type Page } from "./page";
import { save } from "./save";
import { slug } from "./format";

export function saveShown(app: App): void {
  const nodes = [...app.page.names.keys()].filter((i) => app.shown.nodes[i]);
  save(new Blob([csv(app, nodes)], { type: "text/csv" }), `${slug(app.page.title)}-nodes.csv`);
}

/** The node, then whom it chose, then who chose it, with the probability of each edge. */
export function saveNeighbours(app: App, node: number): void {
  const { graph, page } = app;
  const edges: [string, number, string][] = [["selected", node, ""]];
  for (let e = graph.chosen[node]; e < graph.chosen[node + 1]; e++)
    edges.push(["chose", graph.source[e], String(graph.probability[e])]);
  for (const e of graph.choosing.subarray(graph.choosers[node], graph.choosers[node + 1]))
    edges.push(["chosen by", graph.target[e], String(graph.probability[e])]);
  const extra = { "edge": edges.map(([how]) => how), "edge probability": edges.map(([, , p]) => p) };
  const text = csv(app, edges.map(([, i]) => i), extra);
  save(new Blob([text], { type: "text/csv" }), `${slug(page.title)}-${slug(page.names[node])}.csv`);
}

export function csv(app: App, nodes: number[], extra: Record<string, string[]> = {}): string {
  const { page, shown } = app;
  const columns: [string, (node: number, at: number) => string][] = [["id", (i) => text(page.names[i])]];
  for (const [name, values] of Object.entries(extra)) columns.push([name, (_, at) => values[at]]);
  if (page.label) columns.push([page.target, (i) => known(page, page.label!, i)]);
  if (page.prediction) columns.push(["prediction", (i) => known(page, page.prediction!, i)]);
  const c = page.classes.length;
  if (page.probability) page.classes.forEach((name, j) => columns.push([`p(${name})`, (i) => String(page.probability![i * c + j])]));
  if (page.split) columns.push(["split", (i) => text(cell(page.split!, i))]);
  columns.push(["degree", (i) => String(shown.degree[i])]);
  for (const column of page.columns) {
    if (column.name === page.target && page.label) continue; // it is there already
    columns.push([column.name, (i) => (column.kind === "text" ? text(cell(column, i)) : cell(column, i))]);
  }
  const lines = [columns.map(([name]) => text(name))];
  nodes.forEach((node, at) => lines.push(columns.map(([, value]) => value(node, at))));
  return lines.map((line) => line.map(quoted).join(",") + "\r\n").join("");
}

function known(page: Page, values: Int32Array | Float64Array, node: number): string {
  if (!isKnown(values, node)) return "";
  return page.classes.length ? text(answer(page, values, node)) : String(Number(values[node].toPrecision(7)));
}

/** Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers stay as they are. */
function text(value: string): string {
  return /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
}

function quoted(value: string): string {
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
