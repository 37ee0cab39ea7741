// What the page shows while the store has no thread: how to begin.

import { button, fill, h } from "./dom.js";

// emptyStore returns the element. onDemo makes the demo in this store; it is null if the server cannot make it.
export function emptyStore({ toasts, onDemo }) {
  return h("div", { class: "pane-empty start" }, h("h2", {}, "Nothing is recorded yet"),
    way("Record your agent", command("segno enable claude", toasts), "Run this in your project, then use the agent as before. Also for codex, gemini and opencode. Each turn appears here when it ends."),
    onDemo ? way("See it work first", demoButton(onDemo), "A scripted agent takes four turns in a scratch directory; the last one deletes three files. It needs no key. To remove all of it, delete its thread.")
      : way("See it work first", command("segno demo", toasts), "A scripted agent takes four turns in a scratch directory, with a store of its own. It needs no key, and prints the command that shows it here."));
}

function way(title, control, text) {
  return h("section", {}, h("h3", {}, title), h("p", { class: "command-line" }, control), h("p", {}, text));
}

function command(text, toasts) {
  return [h("code", {}, text), button("Copy", async () => {
    await navigator.clipboard.writeText(text);
    toasts.show(`Copied: ${text}`);
  }, { class: "small", "aria-label": `Copy ${text}` })];
}

function demoButton(onDemo) {
  const make = button("Make the demo", async () => {
    make.disabled = true;
    fill(make, "Making the demo\u2026");
    if (await onDemo()) return;
    make.disabled = false;
    fill(make, "Make the demo");
  }, { class: "accent" });
  return make;
}
