// The right pane while two checkpoints are compared.

import { changeList } from "./changes.js";
import { fileActions } from "./fileactions.js";
import { button, fill, h } from "./dom.js";
import { plural } from "./format.js";

const windowSize = 500;

// showComparison fills a place with the files that differ between two checkpoints. to may be
// "present": the files as they are now.
export async function showComparison(place, { api, from, to, names, actions, onClose, onError }) {
  place.setAttribute("aria-busy", "true");
  const load = (offset) => api.get("changes", { from, to, offset, n: windowSize });
  try {
    const page = await load(0);
    fill(place,
      h("header", { class: "turn-head" },
        h("h2", {}, `${names.from} \u2192 ${names.to}`),
        h("p", { class: "dim" }, page.total === 0 ? "No file differs." : `${plural(page.total, "file")} differ.`),
        h("div", { class: "actions" }, button("End comparison", onClose, { "aria-keyshortcuts": "Escape" }))),
      page.total > 0 && h("section", { class: "section" }, h("h3", {}, "Files"),
        changeList(api, page.changes, { total: page.total, diff: () => ({ from, to }), actions: (change) => fileActions(actions, change, from), more: async (offset) => (await load(offset)).changes })));
    place.scrollTop = 0;
  } catch (err) {
    onError(err);
  } finally {
    place.removeAttribute("aria-busy");
  }
}
