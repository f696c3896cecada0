// The page, what was chosen, and what follows from it. Parts of the screen read it and listen to its store.

import { choices, colouring, type Colouring } from "./colours";
import { LARGE, type Graph, type Page } from "./page";
import { firstThreshold, shown, worstError, type Shown } from "./shown";
import { Store, type State } from "./state";

export class App {
  readonly store: Store;
  readonly worst: number;
  readonly drawsEdges: boolean;
  shown: Shown;
  colours: Colouring;

  constructor(
    readonly page: Page,
    dark: boolean,
  ) {
    this.worst = worstError(page);
    this.drawsEdges = page.nodes <= LARGE;
    const state: State = {
      graph: 0,
      colour: choices(page)[0].id,
      threshold: firstThreshold(page.graphs[0], page.nodes),
      hiddenClasses: new Set(),
      hiddenSplits: new Set(),
      onlyErrors: false,
      selected: null,
      hovered: null,
      dark,
    };
    this.store = new Store(state);
    this.shown = shown(page, state, this.worst);
    this.colours = this.coloured(state);
    // First in line: everybody who listens later finds these up to date.
    this.store.on(["graph", "threshold", "hiddenClasses", "hiddenSplits", "onlyErrors"], (now) => {
      this.shown = shown(page, now, this.worst);
      if (now.colour === "degree") this.colours = this.coloured(now);
    });
    this.store.on(["colour", "dark"], (now) => (this.colours = this.coloured(now)));
  }

  get graph(): Graph {
    return this.page.graphs[this.store.state.graph];
  }

  private coloured(state: State): Colouring {
    return colouring(this.page, state.colour, state.dark, this.shown.degree);
  }
}
