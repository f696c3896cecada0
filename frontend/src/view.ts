// The graph on the screen: sigma draws points and lines, this file tells it which.

import { DirectedGraph } from "graphology";
import Sigma from "sigma";
import type { App } from "./app";
import { Lines, Points, Ribbons } from "./programs";

const ALPHAS = 12; // steps of transparency for edges
const MANY_EDGES = 4_000; // above, lines of one pixel, which cost less

export class View {
  readonly sigma: Sigma;
  private readonly nodeKeys: string[];
  private edgeKeys: string[] = [];
  private edgeColours: string[] = [];

  constructor(
    private readonly app: App,
    private readonly container: HTMLElement,
  ) {
    const { page, store } = app;
    this.nodeKeys = Array.from({ length: page.nodes }, (_, i) => String(i));
    this.paintEdges();
    this.sigma = new Sigma(this.model(), container, {
      defaultEdgeType: "edge",
      edgeProgramClasses: { edge: app.graph.source.length > MANY_EDGES ? Lines : Ribbons },
      defaultNodeType: "node",
      nodeProgramClasses: { node: Points },
      minEdgeThickness: 0.5,
      nodeReducer: (key) => this.node(Number(key)),
      edgeReducer: (key) => this.edge(Number(key)),
      labelRenderedSizeThreshold: 1.6 * this.size(), // names appear when one zooms in
      zoomToSizeRatioFunction: (ratio) => ratio ** 0.3,
      labelDensity: 0.5,
      labelSize: 12,
      labelFont: "system-ui, sans-serif",
      labelColor: this.labelColour(),
      defaultDrawNodeHover: () => undefined, // the spotlight does it
      doubleClickTimeout: 0, // it would take two quick clicks on two nodes for one double click; see pointer.ts
      stagePadding: 36,
      zoomingRatio: 1.4,
      minCameraRatio: 0.005,
      maxCameraRatio: 3,
      allowInvalidContainer: true,
    });
    store.on(["colour"], () => this.repaintNodes());
    store.on(["threshold"], (state) => {
      this.repaintEdges();
      if (state.colour === "degree") this.repaintNodes();
    });
    store.on(["hiddenClasses", "hiddenSplits", "onlyErrors"], () => this.sigma.refresh());
    store.on(["dark"], () => {
      this.paintEdges();
      this.sigma.setSetting("labelColor", this.labelColour());
      this.sigma.refresh();
    });
    store.on(["graph"], () => {
      this.paintEdges();
      this.sigma.setGraph(this.model());
    });
  }

  /** Where a node is, in pixels of the container. */
  position(node: number): { x: number; y: number } {
    const place = this.app.graph.place;
    return this.sigma.graphToViewport({ x: place[2 * node], y: place[2 * node + 1] });
  }

  radius(): number {
    return this.sigma.scaleSize(this.size());
  }

  /** The shown node that is nearest to a point of the container, if one is within `reach` pixels of it. */
  nearest(point: { x: number; y: number }, reach: number): number | null {
    const { graph, shown } = this.app;
    const here = this.sigma.viewportToGraph(point);
    const there = this.sigma.viewportToGraph({ x: point.x + reach + this.radius(), y: point.y });
    let least = (there.x - here.x) ** 2 + (there.y - here.y) ** 2;
    let found: number | null = null;
    for (let i = 0; i < shown.nodes.length; i++) {
      if (!shown.nodes[i]) continue;
      const distance = (graph.place[2 * i] - here.x) ** 2 + (graph.place[2 * i + 1] - here.y) ** 2;
      if (distance < least) [least, found] = [distance, i];
    }
    return found;
  }

  /** Bring a node into view, unless it is there already. */
  reveal(node: number): void {
    const { x, y } = this.position(node);
    const { width, height } = this.sigma.getDimensions();
    const margin = 40;
    if (x > margin && y > margin && x < width - margin && y < height - margin) return;
    const data = this.sigma.getNodeDisplayData(String(node));
    if (data) void this.sigma.getCamera().animate({ x: data.x, y: data.y }, { duration: 250 });
  }

  /** Fill the view with a node and those it chose. */
  focus(node: number): void {
    const { graph } = this.app;
    const group = [node, ...graph.source.subarray(graph.chosen[node], graph.chosen[node + 1])];
    const places = group.map((i) => this.sigma.getNodeDisplayData(String(i))!);
    const [xs, ys] = [places.map((place) => place.x), places.map((place) => place.y)];
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const ratio = Math.max(0.02, Math.min(1, 1.8 * Math.max(right - left, high - low)));
    void this.sigma.getCamera().animate({ x: (left + right) / 2, y: (low + high) / 2, ratio }, { duration: 300 });
  }

  /** The more nodes and the smaller the screen, the smaller a node. */
  private size(): number {
    const side = Math.min(this.container.offsetWidth, this.container.offsetHeight) || 600;
    return Math.max(1.2, Math.min(6, (0.16 * side) / Math.sqrt(this.app.page.nodes)));
  }

  private model(): DirectedGraph {
    const { graph, drawsEdges } = this.app;
    const model = new DirectedGraph();
    this.nodeKeys.forEach((key, i) => model.addNode(key, { x: graph.place[2 * i], y: graph.place[2 * i + 1] }));
    this.edgeKeys = drawsEdges ? Array.from(graph.source.keys(), String) : [];
    this.edgeKeys.forEach((key, e) =>
      model.addDirectedEdgeWithKey(key, this.nodeKeys[graph.source[e]], this.nodeKeys[graph.target[e]]),
    );
    return model;
  }

  private node(i: number): Record<string, unknown> {
    const { app } = this;
    return {
      x: app.graph.place[2 * i],
      y: app.graph.place[2 * i + 1],
      size: this.size(),
      color: app.colours.of(i),
      label: app.page.names[i],
      hidden: !app.shown.nodes[i],
    };
  }

  private edge(e: number): Record<string, unknown> {
    const p = Math.min(1, this.app.graph.probability[e] / this.app.graph.highest);
    return { size: 0.4 + 0.8 * p, color: this.edgeColours[Math.round(p * (ALPHAS - 1))], hidden: !this.app.shown.edges[e] };
  }

  /** Sigma keeps what it knows of the other edges: only those that appear or vanish are told to it. */
  private repaintEdges(): void {
    if (!this.app.drawsEdges) return;
    const edges = this.edgeKeys.filter((key, e) => !this.sigma.getEdgeDisplayData(key)!.hidden !== !!this.app.shown.edges[e]);
    this.sigma.refresh({ partialGraph: { edges }, skipIndexation: true });
  }

  private repaintNodes(): void {
    this.sigma.refresh({ partialGraph: { nodes: this.nodeKeys }, skipIndexation: true });
  }

  private paintEdges(): void {
    const [r, g, b] = this.app.store.state.dark ? [150, 168, 190] : [80, 96, 116];
    const strength = Math.max(0.14, Math.min(0.55, 0.55 * (800 / this.app.graph.source.length) ** 0.4)); // many: pale
    this.edgeColours = Array.from({ length: ALPHAS }, (_, i) => {
      const alpha = strength * (0.3 + 0.7 * (i / (ALPHAS - 1)));
      const [red, green, blue] = [r, g, b].map((part) => Math.round(part * alpha)); // sigma expects them multiplied
      return `rgba(${red},${green},${blue},${alpha.toFixed(3)})`;
    });
  }

  private labelColour(): { color: string } {
    return { color: this.app.store.state.dark ? "#cdd6e1" : "#2b3645" };
  }
}
