// The keys of the page and their help.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";

// bindKeys runs an action at its key, unless the user types into a field or a dialog is open.
// commands is a list of {keys, text, run}. isUsable decides about each at its key.
export function bindKeys(commands, isUsable) {
  const byKey = new Map(commands.flatMap((c) => c.keys.map((key) => [key, c])));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog") || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && event.target.closest("button, a, summary")) return; // it activates the control
    const command = byKey.get(event.key);
    if (!command || !isUsable(command)) return;
    event.preventDefault();
    command.run();
  });
}

// showHelp lists the keys.
export function showHelp(commands) {
  const names = { Escape: "Esc", ArrowDown: "\u2193", ArrowUp: "\u2191", ArrowRight: "\u2192", ArrowLeft: "\u2190" };
  openDialog({ title: "Keys", content: h("dl", { class: "keys" }, commands.filter((c) => c.text).map((c) => [
    h("dt", {}, c.keys.map((key) => h("kbd", {}, names[key] ?? key))), h("dd", {}, c.text)])) });
}
