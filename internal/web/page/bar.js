// The bar with the undo of the last turn and the redo of the last undo. It is there whatever the page shows and wherever
// the head of the thread is. The server works both moves out and describes them.

import { button, fill, h } from "./dom.js";

const pause = 250; // ms in which changes become one request
const interval = 1000; // ms between two requests, because each reads the files of the workspace

const kinds = {
  undo: { label: "Undo last turn", sign: "\u21b6", key: "u", title: "Undo the last turn", confirm: "Undo" },
  redo: { label: "Redo", sign: "\u21b7", key: "r", title: "Redo the last undo", confirm: "Redo" },
};

export class Bar {
  #timer = 0;
  #asked = 0; // when the last request was sent
  #stale = false; // a change came while the tab was hidden

  constructor(place, { api, state, moves, onError }) {
    Object.assign(this, { place, api, state, moves, onError });
    this.next = null;
    state.on("thread", () => {
      this.next = null;
      this.draw();
      this.refresh(true);
    });
    document.addEventListener("visibilitychange", () => !document.hidden && this.#stale && this.refresh());
    addEventListener("focus", () => this.refresh()); // the user may have edited files meanwhile
    this.draw();
  }

  // refresh asks the server again, a moment later.
  refresh(now = false) {
    if (this.#timer && !now) return;
    clearTimeout(this.#timer);
    const wait = now ? 0 : Math.max(pause, this.#asked + interval - Date.now());
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#load();
    }, wait);
  }

  async #load() {
    const { thread } = this.state;
    this.#stale = document.hidden;
    if (!thread || document.hidden) return;
    this.#asked = Date.now();
    try {
      const next = await this.api.post("previews/next", { thread });
      if (thread !== this.state.thread) return;
      this.next = next;
      this.draw();
    } catch (err) {
      if (err.kind !== "not_found") this.onError(err); // the thread was deleted
    }
  }

  // preview shows the dialog of the undo or the redo.
  preview(kind) {
    const { title, confirm } = kinds[kind];
    this.moves.show({ title, confirm, body: { verb: kind, turns: 1 } });
  }

  // apply makes the move that the bar describes.
  apply(kind) {
    const plan = this.next?.[kind].preview, { title, confirm } = kinds[kind];
    if (plan) this.moves.apply(plan, { title, confirm, body: { verb: kind, turns: 1 } });
  }

  draw() {
    const focused = document.activeElement?.dataset?.move;
    this.place.hidden = !this.state.thread;
    fill(this.place, this.#move("undo"), this.#move("redo"));
    if (focused) this.place.querySelector(`[data-move="${focused}"]:not(:disabled)`)?.focus();
  }

  #move(kind) {
    const { label, sign, key } = kinds[kind], move = this.next?.[kind], plan = move?.preview;
    return h("div", { class: `next-move ${kind}` },
      button([h("span", { "aria-hidden": "true" }, sign), ` ${label}`], () => this.apply(kind),
        { class: kind === "undo" ? "accent" : "", disabled: !plan, "data-move": kind, "aria-describedby": `next-${kind}`, title: plan ? plan.sentence : move?.hint }),
      plan ? button(h("span", {}, plan.effect), () => this.preview(kind), { class: "effect", id: `next-${kind}`, "data-move": `${kind}-preview`, "aria-haspopup": "dialog", "aria-keyshortcuts": key, title: `Show the differences (${key})` })
        : h("span", { class: "effect dim", id: `next-${kind}` }, h("span", {}, move?.why)));
  }
}
