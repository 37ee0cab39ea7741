// The meaning of the marks of the timeline, below it.

import { h, svg } from "./dom.js";
import { mark } from "./graph.js";

const marks = [
  [{ kind: "turn", on_line: true, head: true }, "you are here: what the files and the conversation are at"],
  [{ kind: "turn", on_line: true }, "a turn of the agent"],
  [{ kind: "turn", on_line: true, files: { deleted: 1 } }, "a turn that deleted files"],
  [{ kind: "turn" }, "an undone turn; redo brings it back"],
  [{ kind: "save", on_line: true }, "saved by you, or pinned"],
  [{ kind: "external", on_line: true }, "changed between turns, by you or by another program"],
  [{ kind: "turn", on_line: true, interrupted: true }, "interrupted"],
];

// legend returns an element with the marks, closed at first.
export function legend() {
  return h("details", { class: "legend" }, h("summary", {}, "What the marks mean"),
    h("dl", {}, marks.map(([row, text]) => [
      h("dt", {}, svg("svg", { class: "graph", width: 18, height: 18, viewBox: "0 0 18 18", "aria-hidden": "true" }, ...mark(row, 9, 9, false))),
      h("dd", {}, text)])));
}
