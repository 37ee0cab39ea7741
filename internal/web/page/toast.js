// Short messages at the bottom of the page, with an undo of the move that they report.

import { button, h } from "./dom.js";

const lifetime = 12000; // ms

export class Toasts {
  #close = null;
  #check = null;

  constructor(place) {
    this.place = place;
    this.undo = null; // the undo of the message
  }

  // show replaces the message, because only the newest move can be undone by a key. undo, if given, runs when the user asks
  // for it, as long as isValid holds; see check. command is one that the user may want to copy, and more is {text, run} of a
  // button; such a message and an error stay until the user closes them.
  show(text, { undo, isValid, hint, command, more, error = false } = {}) {
    this.#close?.();
    const close = () => {
      clearTimeout(timer);
      toast.remove();
      if (this.#close === close) this.undo = this.#close = this.#check = null;
    };
    const run = undo && (() => {
      close();
      undo();
    });
    const undoButton = run && button("Undo", run, { class: "accent", "aria-keyshortcuts": "z", title: "Undo (z)" });
    const toast = h("div", { class: `toast${error ? " bad" : ""}` },
      h("p", {}, text, hint && h("span", { class: "dim" }, ` ${hint}`),
        command && h("span", { class: "command" }, "Continue:", h("code", { title: command }, command),
          button("Copy", () => navigator.clipboard?.writeText(command), { class: "link" }))),
      more && button(more.text, more.run, { "aria-haspopup": "dialog" }),
      undoButton,
      button("\u00d7", close, { class: "quiet", "aria-label": "Close this message" }));
    let timer = 0;
    const start = () => {
      clearTimeout(timer);
      if (!error && !command && !more) timer = setTimeout(close, lifetime);
    };
    toast.addEventListener("pointerenter", () => clearTimeout(timer));
    toast.addEventListener("pointerleave", start);
    toast.addEventListener("focusin", () => clearTimeout(timer));
    toast.addEventListener("focusout", start);
    this.undo = run ?? null;
    this.#close = close;
    this.#check = () => {
      if (!undoButton?.isConnected || !isValid || isValid()) return;
      undoButton.remove();
      this.undo = null;
    };
    this.place.append(toast);
    start();
  }

  // check removes an undo that the server would refuse by now, such as that of a move before a newer turn.
  check() {
    this.#check?.();
  }
}
