// Counts, homophily and the degrees of what is shown now.

import type { App } from "./app";
import { h } from "./dom";
import { count } from "./format";
import { axis, bars, bins } from "./histogram";
import { correlation, errors, homophily } from "./shown";

export function summary(app: App): HTMLElement {
  const tiles = h("dl", { class: "tiles" });
  const chart = h("div", { class: "chart" });
  const element = h("section", { "aria-label": "Summary" }, h("h3", {}, "Shown now"), tiles, h("h4", {}, "Degree"), chart);
  const draw = () => {
    const { page, graph, shown } = app;
    const tile = (id: string, name: string, value: string, of: string, title = "") =>
      h("div", { title }, h("dt", {}, name), h("dd", { id }, value, " ", of ? h("small", {}, `of ${of}`) : null));
    const items = [
      tile("node-count", "nodes", count(shown.nodeCount), count(page.nodes)),
      tile("edge-count", "edges", count(shown.edgeCount), count(graph.source.length)),
    ];
    const share = (value: number | null) => (value === null ? "–" : value.toFixed(3));
    if (page.label && page.classes.length) {
      const title = "share of the shown edges that join nodes of the same class";
      items.push(tile("homophily", "homophily", share(homophily(page, graph, shown.edges)), "", title));
    } else if (page.label) {
      const title = "of the labels at the two ends of the shown edges";
      items.push(tile("correlation", "correlation", share(correlation(page, graph, shown.edges)), "", title));
    }
    const wrong = errors(page, shown.nodes);
    if (wrong?.known) items.push(tile("error-count", "errors", count(wrong.wrong), count(wrong.known)));
    tiles.replaceChildren(...items);
    const degrees = Uint32Array.from(shown.degree).filter((_, i) => shown.nodes[i] === 1);
    const most = degrees.reduce((a, b) => Math.max(a, b), 0);
    const width = Math.ceil((most + 1) / 30);
    const number = Math.ceil((most + 1) / width);
    const name = (from: number, to: number) => (to - from > 1 ? `degree ${from} to ${to - 1}` : `degree ${from}`);
    chart.replaceChildren(bars(bins(degrees, 0, width * number, number), 44, name), axis(0, most));
  };
  app.store.on(["graph", "threshold", "hiddenClasses", "hiddenSplits", "onlyErrors"], draw);
  draw();
  return element;
}
