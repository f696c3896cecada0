// Elements without markup: text goes in as text nodes, so that no name or cell can become HTML.

type Child = Node | string | null;
type Properties = Record<string, string | number | boolean | null | ((event: never) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag: string, properties: Properties = {}, ...children: Child[]): SVGElement {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag) as SVGElement, properties, children);
}

function filled<E extends Element>(element: E, properties: Properties, children: Child[]): E {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null));
  return element;
}

/** A coloured dot; the policy of the page forbids style attributes, so the colour is set by script. */
export function dot(colour: string): HTMLElement {
  const element = h("span", { class: "dot", "aria-hidden": "true" });
  element.style.background = colour;
  return element;
}

/** A horizontal bar for a share between 0 and 1. */
export function bar(share: number, colour?: string): HTMLElement {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  if (colour) fill.style.background = colour;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}
