// Describes a row of the timeline in words.

import { h } from "./dom.js";
import { counts, firstLine, plural, spokenAge } from "./format.js";

// isTurn reports whether a checkpoint ends a turn, or a step of one.
export function isTurn(row) {
  return row.kind === "turn" || row.kind === "step";
}

// subject describes a checkpoint in a line, as segno log does.
export function subject(row) {
  if (row.kind === "turn") return firstLine(row.prompt) || "(no prompt)";
  if (row.label) return `(${firstLine(row.label)})`;
  const names = { base: row.parent ? "(fork)" : "(the beginning)", external: "(not by a turn)", save: "(saved)", step: firstLine(row.prompt) };
  return names[row.kind] ?? `(${row.kind})`;
}

export function actor(row) {
  if (row.kind === "restore" || (row.kind === "external" && row.label)) return "segno";
  if (row.kind === "save") return "you";
  return row.kind === "external" ? "" : row.agent;
}

// spoken is the accessible name of a row.
export function spoken(row) {
  const files = counts(row.files).map(([word, n]) => `${n} ${word}`).join(", ");
  const marks = badges(row).map((b) => b.textContent);
  return [row.kind === "turn" && `turn ${row.turn}`, subject(row), actor(row), spokenAge(row.time), files && `files: ${files}`, row.shell > 0 && plural(row.shell, "command"),
    row.pins?.length > 0 && `pinned ${row.pins.join(", ")}`, ...marks, foldText(row)].filter(Boolean).join(", ");
}

// foldText describes the other lines that begin at a checkpoint, or is "".
export function foldText(row) {
  const fold = row.view?.fold;
  if (!fold) return "";
  const text = fold.turns > 0 ? `${fold.turns} undone` : `${fold.total} more`;
  return `${text} \u00b7 ${fold.open ? "hide" : "show"}`;
}

// badges are the states of a checkpoint as words.
export function badges(row) {
  const names = [
    [row.head, "you are here", "accent"], [row.undone, "undone", ""], [row.running, "running in the background", "accent"],
    [row.interrupted, "interrupted", "warn"], [row.partial, "partial", "warn"], [row.shared, "shared", "warn"],
    [row.notes > 0, plural(row.notes ?? 0, "note"), ""],
  ];
  return names.filter(([on]) => on).map(([, text, tone]) => h("span", { class: `tag ${tone}` }, text));
}

// namedByContent replaces the label of a row by a text that only a screen reader reads, and hides the visible texts from
// it. A label must contain the visible texts, and those of a row are short forms.
export function namedByContent(node) {
  const label = node.getAttribute("aria-label");
  if (!label || !node.hasChildNodes()) return node;
  node.removeAttribute("aria-label");
  for (const child of node.children) child.setAttribute("aria-hidden", "true");
  node.prepend(h("span", { class: "unseen" }, label));
  return node;
}
