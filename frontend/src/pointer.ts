// Mouse and touch on the graph: hover shows, click selects, double click zooms to the neighbours.

import type { App } from "./app";
import { answer } from "./page";
import { confidence } from "./colours";
import { h } from "./dom";
import { share } from "./format";
import type { View } from "./view";

export function listenToPointer(app: App, view: View, container: HTMLElement): void {
  const tip = h("div", { class: "tip", hidden: true });
  container.append(tip);
  const select = ({ event }: { event: { x: number; y: number } }) =>
    app.store.set({ selected: view.nearest(event, 10), hovered: null });
  view.sigma.on("clickNode", select);
  view.sigma.on("clickStage", select);

  container.addEventListener("dblclick", () => {
    if (app.store.state.selected !== null) view.focus(app.store.state.selected);
  });

  let pending: PointerEvent | null = null;
  container.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    if (pending === null) requestAnimationFrame(hover);
    pending = event;
  });
  container.addEventListener("pointerleave", () => {
    pending = null;
    app.store.set({ hovered: null });
  });
  function hover(): void {
    if (pending === null) return;
    const box = container.getBoundingClientRect();
    const moving = pending.buttons !== 0;
    const point = { x: pending.clientX - box.left, y: pending.clientY - box.top };
    pending = null;
    app.store.set({ hovered: moving ? null : view.nearest(point, 3) });
    container.classList.toggle("pointing", app.store.state.hovered !== null);
  }

  app.store.on(["hovered"], ({ hovered }) => {
    tip.hidden = hovered === null;
    if (hovered === null) return;
    const { page } = app;
    const lines = [h("strong", {}, page.names[hovered])];
    if (page.label) lines.push(h("span", {}, `${page.target}: ${answer(page, page.label, hovered)}`));
    if (page.prediction) {
      const sure = page.probability ? ` (${share(confidence(page, hovered))})` : "";
      lines.push(h("span", {}, `prediction: ${answer(page, page.prediction, hovered)}${sure}`));
    }
    tip.replaceChildren(...lines);
    const { x, y } = view.position(hovered);
    const left = x > container.offsetWidth - 240;
    tip.style.left = `${x + (left ? -14 - tip.offsetWidth : 14)}px`;
    tip.style.top = `${Math.max(8, y - tip.offsetHeight - 14)}px`;
  });
}
