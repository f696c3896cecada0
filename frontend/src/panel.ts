// The panel of the selected node: what is known of it, who its neighbours are, its row of the table.

import type { App } from "./app";
import { answerText, classColour } from "./colours";
import { bar, dot, h } from "./dom";
import { count, probability, share } from "./format";
import { icon } from "./icons";
import { answer, cell, errorOf, type Page } from "./page";
import { saveNeighbours } from "./csv";

const FIRST = 20; // edges listed before a button asks for the others
const CLASSES = 8;

export function panel(app: App, focus: (node: number) => void): HTMLElement {
  const element = h("aside", { class: "panel", "aria-label": "Selected node", hidden: true });
  const draw = () => {
    const node = app.store.state.selected;
    element.hidden = node === null;
    document.body.classList.toggle("with-panel", node !== null);
    const within = element.contains(document.activeElement);
    if (node !== null) element.replaceChildren(...contents(app, node, focus));
    // Who follows a neighbour by keyboard goes on from its first neighbour.
    if (within) element.querySelector<HTMLElement>(".edge")?.focus({ preventScroll: true });
    dimmed(app, element);
  };
  app.store.on(["selected", "graph", "colour", "dark"], (_, changed) => {
    draw();
    if (changed.has("selected")) element.scrollTop = 0;
  });
  app.store.on(["threshold"], () => dimmed(app, element));
  return element;
}

function contents(app: App, node: number, focus: (node: number) => void): Node[] {
  const { page, graph } = app;
  const incoming = Uint32Array.from({ length: graph.chosen[node + 1] - graph.chosen[node] }, (_, i) => graph.chosen[node] + i);
  const outgoing = graph.choosing.slice(graph.choosers[node], graph.choosers[node + 1]);
  const parts: Node[] = [
    h(
      "header",
      {},
      h("h2", {}, dot(app.colours.of(node)), h("span", {}, page.names[node])),
      h("button", { class: "icon", "aria-label": "Zoom to neighbours", title: "Zoom to neighbours", onclick: () => focus(node) }, icon("focus")),
      h("button", { class: "icon", "aria-label": "Close", title: "Close (Esc)", onclick: () => close(app) }, icon("close")),
    ),
    facts(page, node),
  ];
  if (page.probability) parts.push(probabilities(page, node));
  parts.push(
    edges(app, "Chose", "in-edges: this node collects from them", incoming, (e) => graph.source[e]),
    edges(app, "Chosen by", "out-edges: they collect from this node", outgoing, (e) => graph.target[e]),
    h("p", { class: "meaning" }, `Edge probability: ${graph.meaning}`),
  );
  if (page.columns.length) parts.push(row(page, node));
  parts.push(h("button", { class: "wide", onclick: () => saveNeighbours(app, node) }, "Save node and neighbours as CSV"));
  return parts;
}

/** The button that had the focus is gone; the graph takes it. */
function close(app: App): void {
  app.store.set({ selected: null });
  document.querySelector<HTMLElement>(".stage")!.focus({ preventScroll: true });
}

function facts(page: Page, node: number): HTMLElement {
  const items: Node[] = [];
  const fact = (name: string, value: string, kind = "") =>
    items.push(h("div", { class: `fact ${kind}` }, h("span", {}, name), h("b", {}, value)));
  if (page.label) fact(page.target, answer(page, page.label, node));
  if (page.prediction) {
    const wrong = page.classes.length > 0 && errorOf(page, node) === 1;
    const right = page.classes.length > 0 && errorOf(page, node) === 0;
    const mark = wrong ? " ✗" : right ? " ✓" : "";
    fact("prediction", answer(page, page.prediction, node) + mark, wrong ? "wrong" : "");
  }
  if (page.split) fact("split", page.split.levels[page.split.codes[node]] ?? "unknown");
  return h("div", { class: "facts" }, ...items);
}

function probabilities(page: Page, node: number): HTMLElement {
  const c = page.classes.length;
  const values = page.classes.map((name, j) => ({ name, j, p: page.probability![node * c + j] }));
  values.sort((a, b) => b.p - a.p || a.j - b.j);
  const rows = values
    .slice(0, CLASSES)
    .map(({ name, j, p }) => h("li", {}, h("span", { class: "name", title: name }, name), bar(p, classColour(j)), h("span", { class: "p" }, share(p))));
  if (c > CLASSES) rows.push(h("li", { class: "more" }, `and ${c - CLASSES} less probable classes`));
  return h("section", {}, h("h3", {}, "Predicted probabilities"), h("ul", { class: "probabilities" }, ...rows));
}

function edges(app: App, title: string, hint: string, list: Uint32Array, other: (edge: number) => number): HTMLElement {
  const { page, graph } = app;
  const line = (e: number) => {
    const node = other(e);
    return h(
      "li",
      {},
      h(
        "button",
        { class: "edge", "data-p": graph.probability[e], onclick: () => app.store.set({ selected: node, hovered: null }) },
        dot(app.colours.of(node)),
        h("span", { class: "name", title: page.names[node] }, page.names[node]),
        h("span", { class: "label", title: answerText(page, node) }, answerText(page, node)),
        bar(graph.probability[e] / graph.highest),
        h("span", { class: "p" }, probability(graph.probability[e])),
      ),
    );
  };
  const items = h("ul", { class: "edges" }, ...Array.from(list.slice(0, FIRST), line));
  const rest = list.slice(FIRST);
  const more = h("button", { class: "wide", hidden: rest.length === 0 }, `Show ${count(rest.length)} more`);
  more.addEventListener("click", () => {
    items.append(...Array.from(rest, line));
    more.hidden = true;
    dimmed(app, items);
  });
  return h(
    "section",
    { "aria-label": title },
    h("h3", { title: hint }, `${title} `, h("span", { class: "count" }, count(list.length)), h("small", {}, hint.split(":")[0])),
    list.length ? items : h("p", { class: "none" }, "nobody"),
    more,
  );
}

/** Edges below the slider stay in the list, paler. */
function dimmed(app: App, element: HTMLElement): void {
  const least = Math.fround(app.store.state.threshold);
  for (const button of element.querySelectorAll<HTMLElement>(".edge"))
    button.classList.toggle("below", Number(button.dataset.p) < least);
}

function row(page: Page, node: number): HTMLElement {
  const cells = page.columns.flatMap((column) => {
    const value = cell(column, node);
    return [h("dt", {}, column.name), h("dd", {}, value === "" ? "–" : value)];
  });
  return h("section", { "aria-label": "Row of the table" }, h("h3", {}, "Row of the table"), h("dl", {}, ...cells));
}
