// Short messages at the bottom of the page, with an undo of the move that they report.

import { button, h } from "./dom.js";

const lifetime = 12000; // ms

export class Toasts {
  constructor(place) {
    this.place = place;
    this.undo = null; // the undo of the newest message
  }

  // show adds a message. undo, if given, runs when the user asks for it. command is one that the user
  // may want to copy; such a message and an error stay until the user closes them.
  show(text, { undo, hint, command, error = false } = {}) {
    const close = () => {
      clearTimeout(timer);
      toast.remove();
      if (this.undo === run) this.undo = null;
    };
    const run = undo && (() => {
      close();
      undo();
    });
    const toast = h("div", { class: `toast${error ? " bad" : ""}` },
      h("p", {}, text, hint && h("span", { class: "dim" }, ` ${hint}`),
        command && h("span", { class: "command" }, "Continue:", h("code", { title: command }, command),
          button("Copy", () => navigator.clipboard?.writeText(command), { class: "link" }))),
      run && button("Undo", run, { class: "accent", "aria-keyshortcuts": "z", title: "Undo (z)" }),
      button("\u00d7", close, { class: "quiet", "aria-label": "Close this message" }));
    let timer = 0;
    const start = () => {
      clearTimeout(timer);
      if (!error && !command) timer = setTimeout(close, lifetime);
    };
    toast.addEventListener("pointerenter", () => clearTimeout(timer));
    toast.addEventListener("pointerleave", start);
    toast.addEventListener("focusin", () => clearTimeout(timer));
    toast.addEventListener("focusout", start);
    this.undo = run ?? null;
    this.place.append(toast);
    while (this.place.childElementCount > 3) this.place.firstElementChild.remove();
    start();
  }
}
