// Draws the part of the graph that passes one row: lines to the children above and to the parent
// below, and the mark of the checkpoint.

import { svg } from "./dom.js";

const step = 14; // px between lanes
const mostLanes = 12;

// drawGraph returns the image of a row. A line that is outside the drawn lanes is left out.
export function drawGraph(row, height, { open = false } = {}) {
  const x = (lane) => step / 2 + 2 + Math.min(lane, mostLanes) * step;
  const middle = height / 2, own = x(row.lane);
  const joins = row.joins ?? [], through = row.through ?? [];
  const lanes = Math.min(mostLanes, Math.max(row.lane, ...joins, ...through, 0)) + 1;
  const width = lanes * step + 4;
  const image = svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const above = row.on_line && !row.head ? "" : "undone"; // what follows the head is undone
  const line = (d, name) => image.append(svg("path", { d, class: `edge ${name}` }));
  for (const lane of through) line(`M${x(lane)} 0V${height}`, "");
  for (const lane of joins) {
    const from = x(lane);
    line(from === own ? `M${own} 0V${middle}` : `M${from} 0C${from} ${middle} ${own} ${middle * 0.4} ${own} ${middle}`, above);
  }
  if (row.parent_index >= 0) line(`M${own} ${middle}V${height}`, row.on_line ? "" : "undone");
  image.append(...mark(row, own, middle, open));
  return image;
}

// mark is the sign of a checkpoint: a disc for a turn, a diamond for a pin or a save, a cross for
// an interrupted turn, a small dot for a change outside turns, and a ring around the head.
function mark(row, x, y, open) {
  const name = row.on_line ? "mark on" : "mark";
  const parts = [];
  if (row.head) parts.push(svg("circle", { cx: x, cy: y, r: 7, class: "ring" }));
  if (open) parts.push(svg("circle", { cx: x, cy: y, r: 4, class: "mark open" }));
  else if (row.interrupted) parts.push(svg("path", { d: `M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`, class: `${name} cross` }));
  else if (row.pin || row.kind === "save") parts.push(svg("path", { d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z`, class: name }));
  else if (row.kind === "external" || row.kind === "base") parts.push(svg("circle", { cx: x, cy: y, r: 2.5, class: name }));
  else parts.push(svg("circle", { cx: x, cy: y, r: 4, class: name }));
  return parts;
}
