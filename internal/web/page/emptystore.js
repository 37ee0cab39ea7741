// What the page shows while the store has no thread: how to begin.

import { button, h } from "./dom.js";

const ways = [
  ["See it work first", "segno demo", "A scripted agent takes four turns in a scratch directory, with a store of its own. It needs no key, and prints the command that shows it here."],
  ["Record your agent", "segno enable claude", "Run it in a project, then use the agent as before. Also for codex, gemini and opencode. Each turn appears here when it ends."],
];

// emptyStore returns the element.
export function emptyStore(toasts) {
  return h("div", { class: "pane-empty start" }, h("h2", {}, "Nothing is recorded yet"),
    ways.map(([title, command, text]) => h("section", {}, h("h3", {}, title),
      h("p", { class: "command-line" }, h("code", {}, command), button("Copy", async () => {
        await navigator.clipboard.writeText(command);
        toasts.show(`Copied: ${command}`);
      }, { class: "small", "aria-label": `Copy ${command}` })), h("p", {}, text))));
}
