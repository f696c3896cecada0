// Small bar charts.

import { h, svg } from "./dom";
import { count, short } from "./format";

const WIDTH = 240;

export interface Bins {
  low: number;
  width: number;
  counts: number[];
}

export function bins(values: ArrayLike<number>, low: number, high: number, number: number): Bins {
  const width = (high - low) / number || 1;
  const counts = new Array<number>(number).fill(0);
  for (let i = 0; i < values.length; i++)
    counts[Math.min(number - 1, Math.max(0, Math.floor((values[i] - low) / width)))]++;
  return { low, width, counts };
}

export function bars({ counts, low, width }: Bins, height: number, describe: (from: number, to: number) => string): SVGElement {
  const most = Math.max(1, ...counts);
  const step = WIDTH / counts.length;
  const rects = counts.map((value, i) => {
    const tall = value ? Math.max(1.5, (value / most) * (height - 2)) : 0;
    const from = low + i * width;
    const words = `${describe(from, from + width)}: ${count(value)}`;
    return svg(
      "rect",
      { x: i * step + 0.5, y: height - tall, width: Math.max(0.8, step - 1), height: tall, rx: 1, "data-from": from },
      svg("title", {}, words),
    );
  });
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", class: "bars", "aria-hidden": "true" },
    ...rects,
  );
}

export function axis(low: number, high: number): HTMLElement {
  return h("div", { class: "axis" }, h("span", {}, short(low)), h("span", {}, short(high)));
}
