// Find a node by its id: exact first, then those that begin with the words, then those that contain them.

import type { App } from "./app";
import { answerText } from "./colours";
import { dot, h } from "./dom";
import type { View } from "./view";

const MOST = 12;

export function search(app: App, view: View): HTMLElement {
  const input = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search by id   /",
    "aria-label": "Search by id",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "found",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("ul", { id: "found", role: "listbox", "aria-label": "Nodes found", hidden: true });
  let found: number[] = [];
  let active = 0;

  const draw = () => {
    const asked = input.value.trim() !== "";
    list.hidden = !asked;
    input.setAttribute("aria-expanded", String(asked));
    const options = found.map((node, i) =>
      h(
        "li",
        { role: "option", id: `found-${i}`, "aria-selected": String(i === active), onclick: () => choose(node) },
        dot(app.colours.of(node)),
        h("span", { class: "name" }, app.page.names[node]),
        h("span", { class: "label" }, answerText(app.page, node)),
      ),
    );
    list.replaceChildren(...(options.length ? options : [h("li", { class: "none" }, "No node has this id")]));
    if (options.length) input.setAttribute("aria-activedescendant", `found-${active}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    input.value = "";
    found = [];
    draw();
  };
  const choose = (node: number) => {
    close();
    input.blur();
    document.body.classList.remove("with-menu");
    app.store.set({ selected: node, hovered: null });
    view.focus(node);
  };

  input.addEventListener("input", () => {
    found = matches(app.page.names, input.value.trim());
    active = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      active = found.length ? (active + step + found.length) % found.length : 0;
      draw();
    } else if (event.key === "Enter" && found.length) choose(found[active]);
    else if (event.key === "Escape") {
      event.stopPropagation();
      close();
      input.blur();
    }
  });
  return h("div", { class: "search" }, input, list);
}

export function matches(names: string[], query: string): number[] {
  if (query === "") return [];
  const wanted = query.toLowerCase();
  const ranks: number[][] = [[], [], []];
  for (let i = 0; i < names.length; i++) {
    const at = names[i].toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const rank = at > 0 ? 2 : names[i].length === wanted.length ? 0 : 1;
    if (ranks[rank].length < MOST) ranks[rank].push(i);
  }
  return ranks.flat().slice(0, MOST);
}
