// Draws the part of the graph that passes one row: the line of the head, a line that begins at the row's checkpoint and
// continues below, and the mark of the checkpoint.

import { svg } from "./dom.js";

const step = 14; // px between lanes

// drawGraph returns the image of a row. Rows of other lines are in a second lane, below the checkpoint at which they begin.
export function drawGraph(row, height, { open = false } = {}) {
  const { inner = false, above = false, below = false, branch = false } = row.view ?? {};
  const x = (lane) => step / 2 + 2 + lane * step;
  const middle = height / 2, width = (inner || branch ? 2 : 1) * step + 4;
  const image = svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const line = (d, name = "") => image.append(svg("path", { d, class: `edge ${name}` }));
  if (inner) {
    if (below) line(`M${x(0)} 0V${height}`);
    line(`M${x(1)} 0V${branch ? height : middle}`, "undone");
  } else {
    if (above) line(`M${x(0)} 0V${middle}`);
    if (below) line(`M${x(0)} ${middle}V${height}`);
    if (branch) line(`M${x(0)} ${middle}C${x(0)} ${height * 0.8} ${x(1)} ${middle} ${x(1)} ${height}`, "undone");
  }
  image.append(...mark(row, x(inner ? 1 : 0), middle, open));
  return image;
}

// mark is the sign of a checkpoint: a disc for a turn, a diamond for a pin or a save, a cross for
// an interrupted turn, a small dot for a change outside turns, and a ring around the head.
export function mark(row, x, y, open) {
  const name = row.on_line ? "mark on" : "mark";
  const parts = [];
  if (row.head) parts.push(svg("circle", { cx: x, cy: y, r: 7, class: "ring" }));
  if (open) parts.push(svg("circle", { cx: x, cy: y, r: 4, class: "mark open" }));
  else if (row.interrupted) parts.push(svg("path", { d: `M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`, class: `${name} cross` }));
  else if (row.pin || row.kind === "save") parts.push(svg("path", { d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z`, class: name }));
  else if (row.kind === "external" || row.kind === "base") parts.push(svg("circle", { cx: x, cy: y, r: 2.5, class: name }));
  else parts.push(svg("circle", { cx: x, cy: y, r: 4, class: row.files?.deleted > 0 ? `${name} deletes` : name }));
  return parts;
}
