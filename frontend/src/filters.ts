// Filters: classes, splits, only errors.

import type { App } from "./app";
import { classColour } from "./colours";
import { dot, h } from "./dom";
import { count } from "./format";

type SetKey = "hiddenClasses" | "hiddenSplits";

export function filters(app: App): HTMLElement | null {
  const { page } = app;
  const parts: HTMLElement[] = [];
  if (page.label && page.classes.length) {
    const counts = new Map<number, number>();
    for (const code of page.label) counts.set(code, (counts.get(code) ?? 0) + 1);
    const chips = page.classes.map((name, code) => chip(app, "hiddenClasses", code, name, counts.get(code) ?? 0, classColour(code)));
    if (counts.get(-1)) chips.push(chip(app, "hiddenClasses", -1, "unknown", counts.get(-1)!));
    parts.push(group(page.target, chips));
  }
  if (page.split) {
    const { codes, levels } = page.split;
    const counts = new Uint32Array(levels.length + 1);
    for (const code of codes) counts[code]++;
    parts.push(group("split", levels.map((name, code) => chip(app, "hiddenSplits", code, name, counts[code]))));
  }
  if (page.label && page.prediction) {
    const box = h("input", { type: "checkbox", id: "only-errors" });
    box.addEventListener("change", () => app.store.set({ onlyErrors: box.checked }));
    const words = page.classes.length ? "only errors" : "only the 10 % largest errors";
    parts.push(h("label", { class: "check" }, box, words));
  }
  return parts.length ? h("section", { "aria-label": "Filters" }, h("h3", {}, "Filter"), ...parts) : null;
}

function group(name: string, chips: HTMLElement[]): HTMLElement {
  return h("div", { class: "chips", role: "group", "aria-label": name }, h("span", { class: "of" }, name), ...chips);
}

function chip(app: App, key: SetKey, code: number, name: string, n: number, colour?: string): HTMLElement {
  const button = h(
    "button",
    { class: "chip", "aria-pressed": "true", title: "Show or hide" },
    colour ? dot(colour) : null,
    h("span", { class: "name" }, name),
    h("span", { class: "count" }, count(n)),
  );
  button.addEventListener("click", () => {
    const hidden = new Set(app.store.state[key]);
    if (!hidden.delete(code)) hidden.add(code);
    button.setAttribute("aria-pressed", String(!hidden.has(code)));
    app.store.set({ [key]: hidden });
  });
  return button;
}
