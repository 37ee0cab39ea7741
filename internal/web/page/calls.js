// The tool calls of a turn: one line each, which opens to the input and the result.

import { button, fill, h } from "./dom.js";
import { duration, firstLine, plural } from "./format.js";
import { longText } from "./longtext.js";

const mostFirst = 8; // calls that are shown before "Show all"

// callList returns an element for the calls of a turn. more(from) loads further calls, and
// text(part, call) returns a loader of the rest of a text. pathOf(call) is the path of the workspace that a call names, or "",
// and onHistory(path) shows its history.
export function callList(calls, total, { more, ...parts }) {
  const list = h("ol", { class: "calls" }, calls.slice(0, mostFirst).map((call) => callItem(call, parts)));
  const box = h("div", {}, list);
  let loaded = calls;
  const shown = () => list.childElementCount;
  if (total <= mostFirst) return box;
  const all = button("", async () => {
    if (shown() >= loaded.length) {
      all.disabled = true;
      loaded = loaded.concat(await more(loaded.length));
      all.disabled = false;
    }
    list.append(...loaded.slice(shown(), shown() + 200).map((call) => callItem(call, parts)));
    label();
  }, { class: "more" });
  const label = () => {
    const left = total - shown();
    if (left <= 0) all.remove();
    else fill(all, `Show ${left > 200 ? "200 more" : left} of ${plural(total, "call")}`);
  };
  label();
  box.append(all);
  return box;
}

function callItem(call, parts) {
  const state = outcome(call);
  const body = h("div", { class: "call-body" });
  const item = h("details", { class: "call", ontoggle: () => item.open && body.childElementCount === 0 && fillCall(body, call, parts) },
    h("summary", {},
      h("span", { class: "tool" }, call.tool), " ",
      h("span", { class: "call-title", title: call.title }, parts.pathOf(call) || call.title || firstLine(call.input?.text)),
      call.outside?.length > 0 && h("span", { class: "tag warn" }, "outside the workspace"),
      h("span", { class: `outcome ${state.name}` }, state.text)), body);
  return h("li", {}, item);
}

// outcome is the end of a call in words.
function outcome(call) {
  const time = duration(call.duration_ms);
  const exit = call.exit ? `exit ${call.exit}` : "";
  if (!call.done) return { name: "warn", text: "no result recorded" };
  const failed = call.status === "failed" || call.exit > 0;
  return { name: failed ? "bad" : "", text: [failed ? exit || "failed" : call.status && call.status !== "completed" ? call.status : "", time].filter(Boolean).join(", ") };
}

function fillCall(body, call, { text, pathOf, onHistory }) {
  const path = pathOf(call);
  const part = (title, value, name) => value?.text && [h("h4", {}, title),
    longText(value, { load: text(name, call.id), render: (t) => h("pre", { class: "code", tabindex: 0 }, t), name: `of the ${name}` })];
  fill(body, path && h("p", {}, button(`History of ${path}`, () => onHistory(path), { class: "link" })), part("Input", call.input, "input"), part("Result", call.result, "result"),
    call.subagent && h("p", { class: "dim" }, `subagent ${call.subagent}`),
    call.outside?.length > 0 && [h("h4", {}, "Outside the workspace, not recorded"), h("ul", { class: "paths" }, call.outside.map((p) => h("li", {}, p)))]);
  if (body.childElementCount === 0) fill(body, h("p", { class: "dim" }, "No input and no result are recorded."));
}
