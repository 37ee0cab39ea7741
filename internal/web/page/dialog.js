// A modal dialog. The browser keeps the focus inside it and returns it when the dialog closes.

import { button, h } from "./dom.js";

// openDialog shows a dialog with a title, content and buttons, and returns it with close().
export function openDialog({ title, content, buttons = [], wide = false, onClose }) {
  const before = document.activeElement;
  const dialog = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": "dialog-title" },
    h("header", {}, h("h2", { id: "dialog-title" }, title), button("\u00d7", () => dialog.close(), { class: "quiet", "aria-label": "Close" })),
    h("div", { class: "dialog-body" }, content),
    buttons.length > 0 && h("footer", {}, buttons));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
    onClose?.();
  });
  // A click on the backdrop has the dialog as its target, and a click inside has an element of it.
  dialog.addEventListener("pointerdown", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
