// The page starts here: decode the data, lay out the screen, connect its parts.

import "./style.css";
import { App } from "./app";
import { colourBy, graphSwitch, thresholdSlider } from "./controls";
import { saveShown } from "./csv";
import { decode } from "./decode";
import { h } from "./dom";
import { filters } from "./filters";
import { icon } from "./icons";
import { keyHelp, listenToKeys } from "./keyboard";
import { panel } from "./panel";
import { savePicture } from "./picture";
import { listenToPointer } from "./pointer";
import { search } from "./search";
import { Spotlight } from "./spotlight";
import { summary } from "./summary";
import { answer } from "./page";
import { View } from "./view";

async function start(): Promise<void> {
  const page = await decode(document.getElementById("data")!.textContent!);
  const app = new App(page, matchMedia("(prefers-color-scheme: dark)").matches);
  const { store } = app;

  const stage = h("div", { class: "stage", tabindex: 0, role: "application", "aria-label": "Graph. Arrow keys go from node to node." });
  const details = panel(app, (node) => view.focus(node));
  const news = h("div", { class: "news", "aria-live": "polite" });
  const theme = h("button", { class: "icon", id: "theme", "aria-label": "Dark or light", title: "Dark or light" }, icon("theme"));
  const menu = h("button", { class: "icon", id: "menu", "aria-label": "Menu", title: "Menu" }, icon("menu"));
  const zoom = (label: string, sign: Parameters<typeof icon>[0], act: () => void) =>
    h("button", { class: "icon", "aria-label": label, title: label, onclick: act }, icon(sign));
  const main = h("main", {}, stage);
  const side = h("nav", { class: "side", "aria-label": "Controls" });
  document.body.append(side, main, details, news);

  const dress = () => (document.documentElement.dataset.theme = store.state.dark ? "dark" : "light");
  dress();
  store.on(["dark"], dress);
  theme.addEventListener("click", () => store.set({ dark: !store.state.dark }));
  menu.addEventListener("click", () => document.body.classList.toggle("with-menu"));

  const view = new View(app, stage);
  const spotlight = new Spotlight(app, view, stage);
  const camera = view.sigma.getCamera();
  main.append(
    h(
      "div",
      { class: "zoom" },
      zoom("Zoom in", "plus", () => void camera.animatedZoom({ duration: 150 })),
      zoom("Zoom out", "minus", () => void camera.animatedUnzoom({ duration: 150 })),
      zoom("Whole graph", "whole", () => void camera.animatedReset({ duration: 150 })),
    ),
  );
  const parts = [
    h("header", {}, h("h1", { title: page.title }, page.title), theme, menu),
    search(app, view),
    h(
      "div",
      { class: "controls" },
      graphSwitch(app),
      colourBy(app),
      thresholdSlider(app),
      filters(app),
      summary(app),
      h(
        "section",
        { "aria-label": "Save" },
        h("h3", {}, "Save"),
        h(
          "div",
          { class: "pair" },
          h("button", { id: "save-png", onclick: () => savePicture(app, view, spotlight) }, "View as PNG"),
          h("button", { id: "save-csv", onclick: () => saveShown(app) }, "Rows as CSV"),
        ),
      ),
      keyHelp(),
      ...page.notes.map((note) => h("p", { class: "note" }, note)),
    ),
  ];
  side.append(...parts);
  listenToPointer(app, view, stage);
  listenToKeys(app, view, stage, details);
  new ResizeObserver(() => {
    store.set({ hovered: null }); // another node is under the pointer now
    view.sigma.refresh({ schedule: true });
  }).observe(stage);
  store.on(["selected"], ({ selected }) => {
    if (selected === null) return;
    news.textContent = `${page.names[selected]} selected${page.label ? `, ${page.target} ${answer(page, page.label, selected)}` : ""}`;
    view.reveal(selected);
  });

  // For tests: where a node is on the screen, and what is shown.
  Object.assign(window, {
    latentgraph: {
      app,
      view,
      at(name: string) {
        const box = stage.getBoundingClientRect();
        const { x, y } = view.position(page.names.indexOf(name));
        return { x: box.left + x, y: box.top + y };
      },
    },
  });
  document.body.classList.add("ready");
}

start().catch((error: unknown) => {
  document.body.append(h("p", { class: "failed", role: "alert" }, `This page could not be drawn: ${String(error)}`));
  throw error;
});
