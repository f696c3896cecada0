// What the person has chosen, and who wants to know when it changes.

export interface State {
  graph: number;
  colour: string; // id of a colouring
  threshold: number; // edges below are not shown
  hiddenClasses: ReadonlySet<number>; // -1: unknown
  hiddenSplits: ReadonlySet<number>;
  onlyErrors: boolean;
  selected: number | null;
  hovered: number | null;
  dark: boolean;
}

export type Change = ReadonlySet<keyof State>;
type Listener = (state: State, changed: Change) => void;

export class Store {
  private listeners: Listener[] = [];

  constructor(public state: State) {}

  set(patch: Partial<State>): void {
    const changed = (Object.keys(patch) as (keyof State)[]).filter((key) => patch[key] !== this.state[key]);
    if (changed.length === 0) return;
    this.state = { ...this.state, ...patch };
    const keys = new Set(changed);
    for (const listener of this.listeners) listener(this.state, keys);
  }

  /** Call `listener` when one of `keys` changes; without keys, at every change. */
  on(keys: readonly (keyof State)[], listener: Listener): void {
    this.listeners.push((state, changed) => {
      if (keys.length === 0 || keys.some((key) => changed.has(key))) listener(state, changed);
    });
  }
}
