// The borders between the panes, which the user can move by mouse and by keyboard. The widths are kept.

import { h } from "./dom.js";

const key = "segno-widths";
const step = 24; // px of one press of an arrow key

// The borders: the variable of the style sheet with the width of the pane before it, and its limits in px.
const borders = [
  { name: "threads", label: "Width of the threads", least: 150, most: 480 },
  { name: "timeline", label: "Width of the timeline", least: 280, most: 1000 },
];

// bindResize adds the borders to the element that holds the panes.
export function bindResize(panes) {
  const kept = read();
  for (const border of borders) {
    const pane = document.getElementById(border.name);
    const handle = h("div", { class: `border ${border.name}`, role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": border.label,
      "aria-controls": border.name, "aria-valuemin": border.least, "aria-valuemax": border.most });
    const set = (width) => {
      const value = Math.round(Math.max(border.least, Math.min(border.most, width)));
      panes.style.setProperty(`--${border.name}`, `${value}px`);
      handle.setAttribute("aria-valuenow", value);
      kept[border.name] = value;
    };
    const keep = () => localStorage.setItem(key, JSON.stringify(kept));
    if (kept[border.name] > 0) set(kept[border.name]);
    else handle.setAttribute("aria-valuenow", Math.round(pane.clientWidth));
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      const from = event.clientX - pane.getBoundingClientRect().width;
      const move = (e) => set(e.clientX - from);
      handle.addEventListener("pointermove", move);
      handle.addEventListener("lostpointercapture", () => {
        handle.removeEventListener("pointermove", move);
        keep();
      }, { once: true });
    });
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
      if (!by) return;
      set(pane.getBoundingClientRect().width + by);
      keep();
      event.preventDefault();
      event.stopPropagation();
    });
    handle.addEventListener("dblclick", () => {
      panes.style.removeProperty(`--${border.name}`);
      delete kept[border.name];
      keep();
    });
    panes.append(handle);
  }
}

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
    return kept && typeof kept === "object" ? kept : {};
  } catch {
    return {};
  }
}
