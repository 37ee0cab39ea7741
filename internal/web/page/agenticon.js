// The sign of an agent: a letter in the agent's colour.

import { h } from "./dom.js";

const known = new Set(["claude", "codex", "gemini", "opencode", "segno", "demo"]);

// agentIcon returns the sign of an agent. Its name is the title, for readers who do not know the sign.
export function agentIcon(name) {
  return h("span", { class: `agent-icon ${known.has(name) ? `agent-${name}` : ""}`, role: "img", "aria-label": name || "no agent", title: name || "no agent" },
    (name || "?").slice(0, 1).toUpperCase());
}
