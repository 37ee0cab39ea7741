// What a user can do with a path wherever it appears: bring it back as it was before a change, and see its history.

import { words } from "./changes.js";
import { button } from "./dom.js";

// fileActions returns the buttons beside a change. before is the checkpoint with the path as it was before the change, or "".
export function fileActions(actions, change, before) {
  if (change.type === "dir" || change.type === "database") return [];
  const isNew = change.sign === "+"; // before the change, the path did not exist
  const text = isNew ? "Remove" : "Bring back";
  const title = isNew ? `Remove ${change.path}, which this turn added` : `Bring back ${change.path} as it was before it was ${words[change.sign]}`;
  return [
    before && button(text, () => actions.bringBack(change, before), { class: change.sign === "-" ? "small accent-text" : "small", title, "aria-label": `${text} ${change.path}` }),
    button("History", () => actions.fileHistory(change), { class: "small quiet", title: `Every turn that touched ${change.path}`, "aria-label": `History of ${change.path}` }),
  ].filter(Boolean);
}
