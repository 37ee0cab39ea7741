// A button that opens a menu of actions.

import { button, h } from "./dom.js";

let menus = 0; // makes ids

// menu returns a button with a menu. items is a list of [text, run]. Arrow keys move in the menu and Escape closes it.
export function menu(label, items) {
  const id = `menu-${++menus}`;
  const open = (shown) => {
    list.hidden = !shown;
    toggle.setAttribute("aria-expanded", String(shown));
    if (shown) list.firstElementChild.focus();
  };
  const toggle = button("\u22ef", () => open(list.hidden), { class: "quiet", "aria-haspopup": "menu", "aria-expanded": "false", "aria-controls": id, "aria-label": label, title: label });
  const list = h("div", { class: "menu-items", id, role: "menu", "aria-label": label, hidden: true },
    items.filter(Boolean).map(([text, run, props]) => h("button", { type: "button", role: "menuitem", tabindex: -1, onclick: () => {
      open(false);
      toggle.focus();
      run();
    }, ...props }, text)));
  const box = h("div", { class: "menu", onkeydown: (event) => {
    const all = [...list.children], at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" && !list.hidden) {
      open(false);
      toggle.focus();
    } else if (next !== undefined && !list.hidden) all.at(next % all.length).focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }, onfocusout: (event) => !box.contains(event.relatedTarget) && open(false) }, toggle, list);
  return box;
}
