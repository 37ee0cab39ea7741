// A list of changed files, each of which opens to its diff.

import { button, h } from "./dom.js";
import { showDiff } from "./diff.js";
import { bytes, plural } from "./format.js";

export const words = { "+": "added", "-": "deleted", "~": "modified" };

// changeList returns an element for changes. diff(change) returns the query of a change's diff, or null if it has none.
// actions(change) returns the buttons beside a change. more(offset) loads further changes. The diffs of a list of at most
// openFirst changes are open at first.
export function changeList(api, changes, { total, diff, actions, more, openFirst = 1 }) {
  const list = h("ul", { class: "changes" });
  const add = (items) => list.append(...items.map((change) => changeItem(api, change, diff(change), actions?.(change))));
  add(changes);
  if (total <= openFirst) for (const item of list.querySelectorAll("details")) item.open = true;
  if (total <= changes.length || !more) return list;
  const next = button(`Show more of ${plural(total, "file")}`, async () => {
    add(await more(list.childElementCount));
    if (list.childElementCount >= total) next.remove();
  }, { class: "more" });
  return h("div", {}, list, next);
}

// pathOf has the fields of a request that name the path of a change.
export function pathOf(change) {
  return change.path_bytes ? { path_bytes: change.path_bytes } : { path: change.path };
}

function changeItem(api, change, query, actions) {
  const word = words[change.sign] ?? "changed";
  const summary = h("summary", {},
    h("span", { class: `sign ${word}`, title: word, role: "img", "aria-label": word }, change.sign === "-" ? "\u2212" : change.sign),
    h("span", { class: "path" }, pathParts(change.path)),
    change.merged && h("span", { class: "tag" }, "merged"),
    h("span", { class: "dim size" }, note(change)));
  // The buttons are beside the summary: a control inside another one has no name of its own.
  const beside = actions?.length > 0 && h("div", { class: "change-actions" }, actions);
  const name = `change${beside ? " with-actions" : ""}`;
  if (!query || change.type === "dir" || change.type === "database") return h("li", { class: name }, h("div", { class: "plain" }, [...summary.childNodes]), beside);
  const body = h("div", { class: "diff" });
  let close = null;
  const item = h("details", { ontoggle: () => {
    if (item.open && !close) close = showDiff(api, body, { ...query, path: change.path, path_bytes: change.path_bytes });
    else if (!item.open && close) {
      close();
      close = null;
      body.replaceChildren();
    }
  } }, summary, body);
  return h("li", { class: name }, item, beside);
}

function note(change) {
  if (change.type === "database") return change.unread ?? plural(change.pages ?? 0, "page");
  if (change.type && change.type !== "file") return change.type;
  const { bytes_before: before, bytes_after: after } = change;
  if (before > 0 && after > 0 && before !== after) return `${bytes(before)} \u2192 ${bytes(after)}`;
  return after > 0 || before > 0 ? bytes(after || before) : "";
}

// pathParts dims the directory, because the name of a file is what a reader looks for.
function pathParts(path) {
  const cut = path.lastIndexOf("/") + 1;
  return [h("span", { class: "dim" }, path.slice(0, cut)), path.slice(cut)];
}
