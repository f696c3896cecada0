// Icons as lines: a font may lack the sign.

import { svg } from "./dom";

const PATHS = {
  close: "M4 4 12 12 M12 4 4 12",
  focus: "M8 2v3 M8 11v3 M2 8h3 M11 8h3 M8 6.6a1.4 1.4 0 1 0 0 2.8a1.4 1.4 0 1 0 0-2.8",
  menu: "M2.5 4h11 M2.5 8h11 M2.5 12h11",
  minus: "M3 8h10",
  plus: "M3 8h10 M8 3v10",
  theme: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12z M8 2v12a6 6 0 0 0 0-12z", // one half is filled
  whole: "M2.5 6V2.5H6 M10 2.5h3.5V6 M13.5 10v3.5H10 M6 13.5H2.5V10",
} as const;

export function icon(name: keyof typeof PATHS): SVGElement {
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: `line ${name}`, "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
