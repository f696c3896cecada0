// A canvas above the graph that shows one node with its neighbours while everything else steps back.

import type { App } from "./app";
import { probability } from "./format";
import type { View } from "./view";

const NAMED = 12; // neighbours with their names beside them

export class Spotlight {
  readonly canvas = document.createElement("canvas");
  private boxes: [left: number, top: number, right: number, bottom: number][] = []; // of the names that are drawn

  constructor(
    private readonly app: App,
    private readonly view: View,
    private readonly container: HTMLElement,
  ) {
    this.canvas.className = "spotlight";
    container.append(this.canvas);
    view.sigma.on("afterRender", () => this.draw());
    app.store.on(["selected", "hovered"], () => this.draw());
  }

  draw(): void {
    const { state } = this.app.store;
    const context = this.cleared();
    const node = state.hovered ?? state.selected;
    if (node === null) return;
    const dark = state.dark;
    const veil = state.hovered === null ? 0.64 : 0.4; // a glance changes less than a choice
    context.fillStyle = dark ? `rgba(14,19,27,${veil})` : `rgba(248,249,251,${veil})`;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const { graph, shown } = this.app;
    const least = Math.fround(state.threshold);
    const listed = (edge: number) =>
      graph.probability[edge] >= least && !!shown.nodes[graph.source[edge]] && !!shown.nodes[graph.target[edge]];
    const incoming = range(graph.chosen[node], graph.chosen[node + 1]).filter(listed);
    const outgoing = [...graph.choosing.subarray(graph.choosers[node], graph.choosers[node + 1])].filter(listed);
    const ink = dark ? "#9fc9e8" : "#0a5c92";
    const far = dark ? "#8391a5" : "#8b98a9";
    // Whoever chose the node stays thin and grey; whom it chose is drawn in colour.
    for (const edge of outgoing.reverse()) this.line(context, node, graph.target[edge], graph.probability[edge], far);
    for (const edge of [...incoming].reverse()) this.line(context, graph.source[edge], node, graph.probability[edge], ink);
    for (const edge of outgoing) this.point(context, graph.target[edge], 0.85);
    for (const edge of incoming) this.point(context, graph.source[edge], 1.15);
    this.point(context, node, 1.6, dark ? "#ffffff" : "#10202f");
    this.boxes = [];
    this.name(context, node, "", true);
    for (const edge of incoming.slice(0, NAMED))
      this.name(context, graph.source[edge], probability(graph.probability[edge]), false);
  }

  private cleared(): CanvasRenderingContext2D {
    const { offsetWidth: width, offsetHeight: height } = this.container;
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d")!;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.scale(ratio, ratio);
    return context;
  }

  /** Between 0 and 1, whatever the scale of the graph. */
  private share(p: number): number {
    return Math.min(1, p / this.app.graph.highest);
  }

  /** An arrow in the direction of the edge: from the node that was chosen to the one that chose it. */
  private line(context: CanvasRenderingContext2D, from: number, to: number, p: number, colour: string): void {
    const a = this.view.position(from);
    const b = this.view.position(to);
    const length = Math.hypot(b.x - a.x, b.y - a.y);
    context.globalAlpha = 0.35 + 0.65 * this.share(p);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 0.8 + 2 * this.share(p);
    context.beginPath();
    context.moveTo(a.x, a.y);
    context.lineTo(b.x, b.y);
    context.stroke();
    const head = 4 + context.lineWidth;
    const gap = this.dot(1.2) + 1;
    if (length > gap + head) {
      const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
      const [x, y] = [b.x - ux * gap, b.y - uy * gap];
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x - ux * head - uy * head * 0.5, y - uy * head + ux * head * 0.5);
      context.lineTo(x - ux * head + uy * head * 0.5, y - uy * head - ux * head * 0.5);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  private dot(scale: number): number {
    return scale * Math.max(4, this.view.radius());
  }

  private point(context: CanvasRenderingContext2D, node: number, scale: number, ring?: string): void {
    const { x, y } = this.view.position(node);
    context.beginPath();
    context.arc(x, y, this.dot(scale), 0, 2 * Math.PI);
    context.fillStyle = this.app.colours.of(node);
    context.fill();
    context.lineWidth = ring ? 2.5 : 1;
    context.strokeStyle = ring ?? (this.app.store.state.dark ? "#0e131b" : "#ffffff");
    context.stroke();
  }

  private name(context: CanvasRenderingContext2D, node: number, after: string, strong: boolean): void {
    const { x, y } = this.view.position(node);
    const dark = this.app.store.state.dark;
    const name = clipped(this.app.page.names[node]);
    context.font = `${strong ? "600 13px" : "500 11px"} system-ui, sans-serif`;
    context.textBaseline = "middle";
    const words = after ? `${name}  ${after}` : name;
    const left = x + this.dot(strong ? 1.6 : 1.15) + 5;
    const right = left + context.measureText(words).width;
    if (this.boxes.some(([l, t, r, b]) => left < r + 4 && right > l - 4 && y - 8 < b && y + 8 > t)) return; // no room
    this.boxes.push([left, y - 8, right, y + 8]);
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = dark ? "rgba(14,19,27,0.9)" : "rgba(255,255,255,0.92)";
    context.strokeText(words, left, y);
    context.fillStyle = dark ? "#eef3f9" : "#17212d";
    context.fillText(words, left, y);
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

function clipped(name: string): string {
  return name.length > 32 ? `${name.slice(0, 31)}…` : name;
}
