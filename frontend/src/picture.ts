// The current view as PNG: the layers of the graph, one over the other, and the legend.

import type { App } from "./app";
import { choices } from "./colours";
import { slug } from "./format";
import { save } from "./save";
import type { Spotlight } from "./spotlight";
import type { View } from "./view";

export function savePicture(app: App, view: View, spotlight: Spotlight): void {
  // What WebGL has drawn is gone after the frame: draw again and copy in the same one.
  view.sigma.refresh({ partialGraph: {}, skipIndexation: true });
  const layers = view.sigma.getCanvases();
  const canvas = document.createElement("canvas");
  const { width, height } = spotlight.canvas;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d")!;
  context.fillStyle = app.store.state.dark ? "#0e131b" : "#f8f9fb";
  context.fillRect(0, 0, width, height);
  for (const layer of [layers.edges, layers.nodes, layers.labels, spotlight.canvas])
    context.drawImage(layer, 0, 0, width, height);
  const ratio = window.devicePixelRatio || 1;
  context.scale(ratio, ratio);
  drawLegend(app, context, height / ratio);
  canvas.toBlob((blob) => blob && save(blob, `${slug(app.page.title)}.png`), "image/png");
}

function drawLegend(app: App, context: CanvasRenderingContext2D, height: number): void {
  const { legend } = app.colours;
  const { dark, colour } = app.store.state;
  const name = choices(app.page).find((choice) => choice.id === colour)!.name;
  context.textBaseline = "middle";
  const ink = dark ? "#e7ecf3" : "#1b2430";
  const rows = legend.kind === "classes" ? legend.entries.length : 2;
  let y = height - 20 - 18 * rows;
  context.fillStyle = ink;
  context.font = "600 12px system-ui, sans-serif";
  context.fillText(name, 20, y);
  context.font = "12px system-ui, sans-serif";
  if (legend.kind === "classes") {
    for (const entry of legend.entries) {
      y += 18;
      context.fillStyle = entry.colour;
      context.beginPath();
      context.arc(26, y, 5, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = ink;
      context.fillText(entry.name, 38, y);
    }
    return;
  }
  legend.scale.forEach((step, i) => {
    context.fillStyle = step;
    context.fillRect(20 + 2 * i, y + 11, 2.5, 10);
  });
  context.fillStyle = ink;
  context.fillText(legend.low, 20, y + 32);
  context.textAlign = "right";
  context.fillText(legend.high, 20 + 2 * legend.scale.length, y + 32);
}
