// The dialog of a move: the server's plan with its conflicts, options that make a new plan, and the
// button that applies it.

import { randomKey } from "./api.js";
import { changeList } from "./changes.js";
import { openDialog } from "./dialog.js";
import { append, button, fill, h } from "./dom.js";
import { fileActions } from "./fileactions.js";
import { plural } from "./format.js";

const mostSteps = 200; // paths that are listed
const mostLines = 2000; // of the difference of a conflict
const mostOpen = 4; // of them, the number whose differences are open at first
const pause = 300; // ms after typing before a new plan is asked for

// isNew tells the user that the plan replaces one that is out of date.
// previewMove shows the plan of a move and applies it if the user confirms.
// options(body, changed) returns the fields of the form; changed(fields) asks for a new plan. actions are those of a file.
export function previewMove({ api, title, confirm, body, options, actions, onDone, danger = false, isNew = false }) {
  return new PreviewDialog({ api, title, confirm, body, options, actions, onDone, danger, isNew });
}

// showConflicts lists the files that a move did not write.
export function showConflicts(result, plan, actions) {
  const { conflicts, verb } = result, total = result.totals?.conflicts ?? conflicts.length, files = plural(total, "file");
  const [title, sentence] = verb === "fork" ? ["Not in the fork", `The fork is without ${files}.`]
    : ["Left as they are", `The move did not write ${files}, because of changes that others made.`];
  const dialog = openDialog({ title, wide: true, buttons: [button("Close", () => dialog.close(), { autofocus: true })], content: [
    h("p", { class: "sentence" }, sentence),
    conflictList(conflicts, total, plan, closing(() => dialog.close(), actions))] });
}

// closing returns actions that close a dialog first, because they show something else.
function closing(close, actions) {
  return Object.fromEntries(Object.entries(actions).map(([name, run]) => [name, (...args) => {
    close();
    run(...args);
  }]));
}

class PreviewDialog {
  #asked = 0;
  #timer = 0;

  constructor(parts) {
    Object.assign(this, parts);
    this.plan = null;
    this.planPlace = h("div", { class: "plan", "aria-live": "polite" });
    this.apply = button(this.confirm, () => this.#apply(), { class: this.danger ? "bad" : "accent", disabled: true });
    this.cancel = button("Cancel", () => this.dialog.close(), { autofocus: !this.options });
    this.dialog = openDialog({
      title: this.title, wide: true, buttons: [this.cancel, this.apply],
      content: [this.options?.(this.body, (fields, typed) => this.#change(fields, typed)), this.planPlace],
      onClose: () => { this.#asked++; clearTimeout(this.#timer); },
    });
    this.dialog.querySelector("[autofocus]")?.focus();
    if (this.#complete()) this.#ask();
    this.dialog.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT" && !this.apply.disabled) this.#apply();
    });
  }

  // complete reports whether the form has what a plan needs.
  #complete() {
    return !(this.body.verb === "pin" && !this.body.name) && !(this.body.verb === "rename" && !this.body.title);
  }

  #change(fields, typed) {
    Object.assign(this.body, fields);
    this.#asked++; // a plan under way is for the form as it was
    this.plan = null;
    this.apply.disabled = true;
    clearTimeout(this.#timer);
    if (!this.#complete()) return;
    this.#timer = setTimeout(() => this.#ask(), typed ? pause : 0);
  }

  // ask requests a plan. An answer that a newer request has replaced is dropped.
  async #ask() {
    const number = ++this.#asked;
    if (!this.planPlace.hasChildNodes()) fill(this.planPlace, h("p", { class: "dim" }, "Working out the plan\u2026"));
    try {
      const plan = await this.api.post("previews", this.body);
      if (number !== this.#asked) return;
      this.plan = plan;
      this.#show(plan);
    } catch (err) {
      if (number !== this.#asked) return;
      this.plan = null;
      this.apply.disabled = true;
      fill(this.planPlace, refusal(err), this.#runningBox(err));
    }
  }

  // runningBox offers to override a refusal that the command line overrides with --while-running.
  #runningBox(err) {
    if (this.body.while_running || !/--while-running/.test(`${err.message} ${err.hint}`)) return null;
    return h("label", { class: "check warn" }, h("input", { type: "checkbox", onchange: () => this.#change({ while_running: true }) }), "Do it while it runs");
  }

  #show(plan) {
    fill(this.planPlace, this.isNew && h("p", { class: "notice warn", role: "alert" }, changedSince), planParts(this.api, plan, closing(() => this.dialog.close(), this.actions)));
    this.apply.disabled = false;
    if (plan.needs_force) {
      const choice = (force, label) => h("label", { class: "check" },
        h("input", { type: "radio", name: "conflicts", checked: Boolean(this.force) === force, onchange: () => { this.force = force; } }), label);
      append(this.planPlace, [h("fieldset", { class: "tiers" }, h("legend", {}, "The conflicts"),
        choice(false, "Leave these files as they are"), choice(true, "Overwrite them; the present is saved first"))]);
    } else if (!this.dialog.contains(document.activeElement) || !document.activeElement.matches("input, textarea")) this.apply.focus();
  }

  async #apply() {
    if (!this.plan || this.apply.disabled) return;
    this.apply.disabled = true;
    this.key ??= randomKey();
    try {
      const result = await this.api.move(this.plan.id, this.key, this.force);
      this.dialog.close();
      this.onDone(result, this.plan);
    } catch (err) {
      this.#refused(err);
    }
  }

  // refused shows why a move was not made. A plan that is out of date is made again.
  async #refused(err) {
    if (err.kind === "offline") { // the same key makes a second attempt safe
      fill(this.planPlace, refusal(err));
      this.apply.disabled = false;
      return;
    }
    this.key = null;
    if (err.status === 412) {
      await this.#ask();
      this.planPlace.prepend(h("p", { class: "notice warn", role: "alert" }, changedSince));
      return;
    }
    fill(this.planPlace, refusal(err));
  }
}

const changedSince = "Something changed since this plan was made. This is the new plan.";

function refusal(err) {
  return h("div", { class: "notice bad", role: "alert" }, h("p", {}, err.message), err.hint && h("p", { class: "dim" }, err.hint));
}

// planParts shows a plan: the sentence of the server, and the differences. A move that changes no files has a summary instead.
function planParts(api, plan, actions) {
  const steps = plan.steps ?? [], conflicts = plan.conflicts ?? []; // the first ones of totals
  const total = { steps: steps.length, conflicts: conflicts.length, kept: 0, ...plan.totals };
  return [
    plan.sentence ? h("p", { class: "sentence" }, plan.sentence) : h("pre", { class: "summary" }, (plan.summary ?? []).join("\n")),
    plan.git && h("p", { class: "notice warn" }, plan.git),
    plan.final && h("p", { class: "notice warn" }, "This cannot be undone."),
    conflicts.length > 0 && h("section", { class: "conflicts" }, h("h3", {}, plural(total.conflicts, "conflict")), conflictList(conflicts, total.conflicts, plan, actions)),
    plan.kept?.length > 0 && h("details", {}, h("summary", {}, `${plural(total.kept, "protected path")} that stay`),
      h("ul", { class: "paths" }, plan.kept.slice(0, mostSteps).map((k) => h("li", {}, k.path, h("span", { class: "dim" }, ` ${k.why}`))))),
    steps.length > 0 && h("details", { open: true }, h("summary", {}, plural(total.steps, "file")),
      changeList(api, steps.slice(0, mostSteps), { total: total.steps, openFirst: mostOpen, diff: () => ({ preview: plan.id }) }),
      total.steps > mostSteps && h("p", { class: "dim" }, `and ${total.steps - mostSteps} more`)),
  ];
}

// conflictList shows files that a move does not write, each with the difference that writing it would make.
function conflictList(conflicts, total, plan, actions) {
  return [
    conflicts.map((c) => h("details", { class: "conflict", open: conflicts.length <= 3 },
      h("summary", {}, h("span", { class: "path" }, c.path), h("span", { class: "dim" }, ` ${c.why ?? ""}`)),
      h("div", { class: "actions" }, fileActions(actions, { ...c, sign: signOf(c, plan) }, stateOf(plan))), patch(c.diff))),
    total > conflicts.length && h("p", { class: "dim" }, `and ${total - conflicts.length} more`),
  ];
}

// stateOf is the checkpoint with the files as the move would write them, or "". A fork writes no file that exists, and no
// checkpoint has the files without one turn.
function stateOf(plan) {
  return plan.verb === "fork" || plan.only ? "" : plan.landing ?? "";
}

// signOf is what was done to a file since the state that the move would write.
function signOf({ path }, plan) {
  const written = plan.forced?.find((c) => c.path === path)?.sign;
  return { "+": "-", "-": "+" }[written] ?? "~";
}

// patch shows the text of a unified diff, without the lines that repeat its path.
function patch(text) {
  if (!text) return null;
  const tone = { "+": "added", "-": "deleted", "@": "hunk" }, lines = text.trimEnd().split("\n");
  const begin = Math.max(0, lines.findIndex((line) => line.startsWith("@@")));
  const header = lines.slice(0, begin).filter((line) => !/^(diff --git |index |--- |\+\+\+ )/.test(line)); // such as a new mode
  return h("pre", { class: "code patch", tabindex: 0 }, header.map((line) => h("span", { class: "line dim" }, `${line}\n`)),
    lines.slice(begin, begin + mostLines).map((line) => h("span", { class: `line ${tone[line[0]] ?? ""}` }, `${line}\n`)));
}
