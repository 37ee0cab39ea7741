// A list of changed files, each of which opens to its diff.

import { button, h } from "./dom.js";
import { showDiff } from "./diff.js";
import { bytes, plural } from "./format.js";

const words = { "+": "added", "-": "deleted", "~": "modified" };

// changeList returns an element for changes between two checkpoints. more(offset) loads further ones.
export function changeList(api, changes, { total, from, to, more }) {
  const list = h("ul", { class: "changes" });
  const add = (items) => list.append(...items.map((change) => changeItem(api, change, { from, to })));
  add(changes);
  if (changes.length === 1) list.querySelector("details")?.setAttribute("open", "");
  if (total <= changes.length) return list;
  const next = button(`Show more of ${plural(total, "file")}`, async () => {
    add(await more(list.childElementCount));
    if (list.childElementCount >= total) next.remove();
  }, { class: "more" });
  return h("div", {}, list, next);
}

function changeItem(api, change, { from, to }) {
  const word = words[change.sign] ?? "changed";
  const summary = h("summary", {},
    h("span", { class: `sign ${word}`, title: word, role: "img", "aria-label": word }, change.sign === "-" ? "\u2212" : change.sign),
    h("span", { class: "path" }, pathParts(change.path)),
    change.merged && h("span", { class: "tag" }, "merged"),
    h("span", { class: "dim size" }, note(change)));
  if (!from || change.type === "dir" || change.type === "database") return h("li", { class: "change" }, h("div", { class: "plain" }, [...summary.childNodes]));
  const body = h("div", { class: "diff" });
  let close = null;
  const item = h("details", { ontoggle: () => {
    if (item.open && !close) close = showDiff(api, body, { from, to, path: change.path, path_bytes: change.path_bytes });
    else if (!item.open && close) {
      close();
      close = null;
      body.replaceChildren();
    }
  } }, summary, body);
  return h("li", { class: "change" }, item);
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
