// Everything without a mouse.

import type { App } from "./app";
import { h } from "./dom";
import type { View } from "./view";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["← ↑ → ↓", "go to the next node in that direction (on the graph); through a list of neighbours"],
  ["Enter", "from the graph to the neighbours of the node"],
  ["Esc", "close what is open"],
  ["+ − 0", "zoom in, out, whole graph"],
];
const DIRECTIONS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

export function keyHelp(): HTMLElement {
  const rows = KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]);
  return h("details", { class: "keys" }, h("summary", {}, "Keyboard"), h("dl", {}, ...rows));
}

export function listenToKeys(app: App, view: View, stage: HTMLElement, panel: HTMLElement): void {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !typing) {
      event.preventDefault();
      document.body.classList.add("with-menu");
      document.querySelector<HTMLInputElement>("#search")!.focus();
    } else if (event.key === "Escape") {
      if (document.body.classList.contains("with-menu")) document.body.classList.remove("with-menu");
      else app.store.set({ selected: null, hovered: null });
      if (!typing) stage.focus({ preventScroll: true });
    }
  });
  stage.addEventListener("keydown", (event) => {
    const camera = view.sigma.getCamera();
    const direction = DIRECTIONS[event.key];
    if (direction) step(app, view, direction);
    else if (event.key === "+" || event.key === "=") void camera.animatedZoom({ duration: 150 });
    else if (event.key === "-") void camera.animatedUnzoom({ duration: 150 });
    else if (event.key === "0") void camera.animatedReset({ duration: 150 });
    else if (event.key === "Enter") panel.querySelector<HTMLElement>(".edge")?.focus();
    else return;
    event.preventDefault();
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const list = [...panel.querySelectorAll<HTMLElement>(".edge")];
    const at = list.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    event.preventDefault();
    list[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  });
}

/** The nearest shown node in a cone of 90 degrees; without a selection, the node nearest to the middle. */
function step(app: App, view: View, [dx, dy]: [number, number]): void {
  const { selected } = app.store.state;
  const { width, height } = view.sigma.getDimensions();
  if (selected === null) {
    app.store.set({ selected: view.nearest({ x: width / 2, y: height / 2 }, width + height) });
    return;
  }
  const { place } = app.graph;
  let least = Infinity;
  let found: number | null = null;
  for (let i = 0; i < app.page.nodes; i++) {
    if (i === selected || !app.shown.nodes[i]) continue;
    const x = place[2 * i] - place[2 * selected];
    const y = place[2 * selected + 1] - place[2 * i + 1]; // up is positive in the graph, down on the screen
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (ahead <= 0 || aside > ahead) continue;
    const distance = x * x + y * y;
    if (distance < least) [least, found] = [distance, i];
  }
  if (found === null) return;
  app.store.set({ selected: found, hovered: null });
  view.reveal(found);
}
