// Choices: which graph, which colours, how probable an edge has to be.

import type { App } from "./app";
import { choices, type ColourChoice } from "./colours";
import { h } from "./dom";
import { axis, bars, bins } from "./histogram";
import { legend } from "./legend";
import { firstThreshold } from "./shown";

export function graphSwitch(app: App): HTMLElement | null {
  const { graphs } = app.page;
  if (graphs.length < 2) return null;
  const buttons = graphs.map((graph, i) =>
    h(
      "button",
      { role: "radio", onclick: () => app.store.set({ graph: i, threshold: firstThreshold(graph, app.page.nodes) }) },
      graph.name,
    ),
  );
  const draw = () =>
    buttons.forEach((button, i) => button.setAttribute("aria-checked", String(i === app.store.state.graph)));
  app.store.on(["graph"], draw);
  draw();
  return h("section", {}, h("h3", {}, "Graph"), h("div", { class: "segments", role: "radiogroup", "aria-label": "Graph" }, ...buttons));
}

export function colourBy(app: App): HTMLElement {
  const groups = new Map<string, ColourChoice[]>();
  for (const choice of choices(app.page)) groups.set(choice.group, [...(groups.get(choice.group) ?? []), choice]);
  const select = h(
    "select",
    { id: "colour" },
    ...[...groups].map(([label, list]) =>
      h("optgroup", { label }, ...list.map(({ id, name }) => h("option", { value: id }, name))),
    ),
  );
  select.value = app.store.state.colour;
  select.addEventListener("change", () => app.store.set({ colour: select.value }));
  return h("section", {}, h("h3", {}, h("label", { for: "colour" }, "Colour by")), select, legend(app));
}

export function thresholdSlider(app: App): HTMLElement {
  const input = h("input", { type: "range", id: "threshold", min: 0 });
  const value = h("output", { for: "threshold", id: "threshold-value" });
  const chart = h("div", { class: "chart" });
  const rebuild = () => {
    const { highest } = app.graph;
    const top = highest > 0.1 && highest <= 1 ? 1 : highest; // a scale up to 1 says nothing of very small values
    input.max = String(top);
    input.step = String(top / 100);
    chart.replaceChildren(bars(bins(app.graph.probability, 0, top, 40), 34, (a, b) => `${a.toFixed(3)} to ${b.toFixed(3)}`), axis(0, top));
    draw();
  };
  const draw = () => {
    const { threshold } = app.store.state;
    input.value = String(threshold);
    value.textContent = `≥ ${Number(input.max) < 0.1 ? threshold.toPrecision(2) : threshold.toFixed(2)}`;
    const width = Number(input.max) / 40;
    for (const rect of chart.querySelectorAll<SVGElement>("rect"))
      rect.classList.toggle("below", Number(rect.dataset.from) + width / 2 < threshold);
  };
  // Many events of one frame are answered once.
  let pending = false;
  input.addEventListener("input", () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      app.store.set({ threshold: Number(input.value) });
    });
  });
  app.store.on(["graph"], rebuild);
  app.store.on(["threshold"], draw);
  rebuild();
  const hint = app.drawsEdges ? null : h("p", { class: "none" }, "Points only at this size: click a node to see its edges.");
  return h(
    "section",
    { "aria-label": "Edge probability" },
    h("h3", {}, h("label", { for: "threshold" }, "Edge probability"), value),
    chart,
    input,
    hint,
  );
}
