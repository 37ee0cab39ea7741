// Copies a turn as Markdown, and downloads it as a page for others. The server writes both, without secrets.

import { h } from "./dom.js";

// copyTurn puts a turn on the clipboard.
export async function copyTurn(api, turn, toasts) {
  const blob = await api.blob(path(turn), { format: "markdown" });
  await navigator.clipboard.writeText(await blob.text());
  toasts.show(`Copied t${turn.turn} as Markdown.`);
}

// shareTurn downloads a turn as one HTML file.
export async function shareTurn(api, turn, toasts) {
  const blob = await api.blob(path(turn), { format: "html" });
  const link = h("a", { href: URL.createObjectURL(blob), download: `t${turn.turn}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser reads it after the click
  toasts.show(`Saved t${turn.turn}.html: one page that can be mailed. Secrets are left out.`);
}

const path = (turn) => `checkpoints/${encodeURIComponent(turn.id)}/export`;
