// The right pane while the history of a file is shown: each turn that touched it, with its difference.

import { changeList, pathOf, words } from "./changes.js";
import { button, fill, h } from "./dom.js";
import { moment, spokenAge } from "./format.js";
import { actor, isTurn, subject } from "./row.js";

const windowSize = 30;

// showFileHistory fills a place with the checkpoints of a thread that changed a path, newest first.
// title is that of the thread, if it is not the one in view.
export async function showFileHistory(place, { api, thread, title, change, actions, onClose, onError }) {
  place.setAttribute("aria-busy", "true");
  const load = (cursor) => api.get(`threads/${encodeURIComponent(thread)}/file`, { ...pathOf(change), limit: windowSize, cursor });
  try {
    const page = await load(0);
    const list = h("ol", { class: "touches" }, page.touches.map((t) => touch(api, thread, t, actions)));
    const more = button("Show earlier changes", async () => {
      const next = await load(page.next);
      list.append(...next.touches.map((t) => touch(api, thread, t, actions)));
      page.next = next.next;
      more.hidden = !page.next;
    }, { class: "more", hidden: !page.next });
    fill(place,
      h("header", { class: "turn-head" },
        h("h2", {}, "History of ", h("span", { class: "path" }, change.path)),
        h("p", { class: "dim" }, [state(page), title && `Thread: ${title}`].filter(Boolean).join(" ")),
        h("div", { class: "actions" }, button("Close", onClose, { "aria-keyshortcuts": "Escape" }))),
      h("section", { class: "section" }, page.touches.length === 0 ? h("p", { class: "empty" }, "No turn of this thread changed this path.") : [list, more]));
    place.scrollTop = 0;
    place.focus({ preventScroll: true });
  } catch (err) {
    onError(err);
  } finally {
    place.removeAttribute("aria-busy");
  }
}

function state(page) {
  if (page.exists === null || page.exists === undefined) return "";
  return page.exists ? "The file exists now." : "The file does not exist now.";
}

// touch is one change of the file.
function touch(api, thread, row, actions) {
  const { change } = row;
  return h("li", { class: "touch" },
    h("div", { class: "touch-head" },
      h("span", { class: `touch-word ${words[change.sign]}` }, words[change.sign]),
      button(subject(row), () => actions.open(row.thread, row.id), { class: "link ellipsis" }),
      h("span", { class: "meta" }, isTurn(row) && h("span", { class: "turn-name" }, `t${row.turn}`), h("span", {}, actor(row)),
        h("time", { datetime: row.time, title: moment(row.time) }, spokenAge(row.time)), !row.on_line && isTurn(row) && h("span", { class: "tag" }, "undone"))),
    changeList(api, [change], { total: 1, openFirst: 0, diff: () => ({ from: row.before, to: row.id }),
      actions: () => [button("Bring back this version", () => actions.bringBack({ ...change, sign: "~" }, change.sign === "-" ? row.before : row.id, thread),
        { class: `small${change.sign === "-" ? " accent-text" : ""}`, "aria-label": `Bring back this version of ${change.path}`, title: change.sign === "-" ? "As it was before this turn deleted it" : "As it was after this turn" })] }));
}
