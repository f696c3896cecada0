// What the colours mean.

import type { App } from "./app";
import { dot, h } from "./dom";
import { count } from "./format";

export function legend(app: App): HTMLElement {
  const element = h("div", { class: "legend", id: "legend", "aria-label": "Legend" });
  const draw = () => {
    const { legend } = app.colours;
    if (legend.kind === "classes") {
      const items = legend.entries.map(({ colour, name, count: n }) =>
        h("li", {}, dot(colour), h("span", { class: "name", title: name }, name), h("span", { class: "count" }, count(n))),
      );
      element.replaceChildren(h("ul", {}, ...items));
      return;
    }
    const ramp = h("div", { class: "ramp", "aria-hidden": "true" });
    ramp.style.background = `linear-gradient(90deg, ${legend.scale.join(",")})`;
    const ends = h("div", { class: "axis" }, h("span", {}, legend.low), h("span", {}, legend.high));
    const missing = legend.missing ? h("p", { class: "none" }, `${count(legend.missing)} without a value, grey`) : null;
    element.replaceChildren(ramp, ends, ...(missing ? [missing] : []));
  };
  app.store.on(["colour", "dark"], draw);
  app.store.on(["graph", "threshold", "hiddenClasses", "hiddenSplits", "onlyErrors"], (state) => {
    if (state.colour === "degree") draw();
  });
  draw();
  return element;
}
