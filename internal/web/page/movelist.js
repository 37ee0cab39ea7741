// The right pane while the moves in a directory are shown: each undo, redo, restore, fork and pin, with what asked for it and its undo.

import { button, fill, h } from "./dom.js";
import { firstLine, moment, pathEnd, plural, spokenAge } from "./format.js";

const limit = 100;

const names = { undo: "Undo", redo: "Redo", restore: "Restore", fork: "Fork", pin: "Pin", unpin: "Pin removed", switch: "Switch", "op undo": "Move undone" };

export class MoveList {
  constructor(place, { api, state, moves, onOpen, onClose, onError }) {
    Object.assign(this, { place, api, state, moves, onOpen, onClose, onError });
  }

  async show() {
    const list = h("ol", { class: "moves" });
    fill(this.place,
      h("header", { class: "turn-head" }, h("h2", {}, "Moves"),
        h("p", { class: "dim" }, "Every undo, redo, restore, fork and pin in this directory, newest first. Each can be undone as long as no newer turn depends on it."),
        h("div", { class: "actions" }, button("Close", () => this.onClose(), { "aria-keyshortcuts": "Escape" }))),
      h("section", { class: "section" }, list));
    this.place.scrollTop = 0;
    this.place.focus({ preventScroll: true });
    await this.#load(list);
  }

  async #load(list) {
    const workspace = this.state.currentThread?.workspace;
    try {
      const { operations } = workspace ? await this.api.get("operations", { workspace, limit }) : { operations: [] };
      fill(list, operations.length > 0 ? operations.map((op) => this.#move(op)) : h("li", { class: "empty" }, "Nothing was moved here yet."));
    } catch (err) {
      this.onError(err);
    }
  }

  #move(op) {
    const title = firstLine(this.state.threads.find((t) => t.id === op.thread)?.title ?? "", 80);
    const text = describe(op);
    const body = { verb: "op-undo", thread: op.thread, operation: op.id };
    return h("li", { class: `move${op.undone ? " undone" : ""}` },
      h("div", { class: "move-text" },
        h("p", { class: "subject", title: op.args }, text, op.about && h("span", { class: "dim" }, ` \u201c${op.about}\u201d`)),
        h("p", { class: "meta" }, h("time", { datetime: op.time, title: moment(op.time) }, spokenAge(op.time)),
          op.actor && h("span", {}, `via ${op.actor}`),
          op.thread !== this.state.thread && title && button(title, () => this.onOpen(op.thread), { class: "link ellipsis" }),
          op.undone && h("span", { class: "tag" }, "undone"))),
      !op.undone && button("Undo", () => this.moves.undoMove(body), { class: "small", "aria-label": `Undo: ${text}`, "aria-haspopup": "dialog" }));
  }
}

// describe names a move and its target. Its arguments are those of the command line.
function describe({ verb, args = "" }) {
  const name = names[verb] ?? verb;
  if (/^\d+$/.test(args)) return `${name} of ${plural(Number(args), "turn")}`;
  const [target, dir] = args.split(" --to ");
  return [name, target, dir && `to ${pathEnd(dir)}`].filter(Boolean).join(" ");
}
