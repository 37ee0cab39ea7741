// What a user can do to a thread: each move with its preview, its report and its undo.

import { randomKey } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { previewMove, showConflicts } from "./preview.js";

export class Moves {
  // onMoved is called after a move, with the server's answer. onHistory(change, thread) shows the history of a file.
  constructor({ api, state, toasts, onMoved, onHistory, onError }) {
    Object.assign(this, { api, state, toasts, onMoved, onHistory, onError });
  }

  // show shows the dialog of a move.
  show(parts) {
    this.#preview(parts);
  }

  // bringBack restores paths from the checkpoint before they were changed. A dialog asks first if one of them exists now,
  // because its present content would be replaced. thread is the present one by default.
  bringBack(changes, before, thread) {
    const confirm = changes.every((c) => c.sign === "+") ? "Remove" : "Bring back";
    const plain = changes.filter((c) => !c.path_bytes).map((c) => c.path), encoded = changes.filter((c) => c.path_bytes).map((c) => c.path_bytes);
    const body = { verb: "restore", ...(thread && { thread }), to: before, scope: "files", ...(plain.length > 0 && { paths: plain }), ...(encoded.length > 0 && { path_bytes: encoded }) };
    this.#atOnce({ title: `${confirm} ${changes.length === 1 ? changes[0].path : plural(changes.length, "file")}`, confirm, body }, (plan) => plan.steps.every((s) => s.sign === "+"));
  }

  undo(turn) {
    this.#preview({ title: turn.head ? `Undo t${turn.turn}` : `Undo back to and including t${turn.turn}`, confirm: "Undo", body: { verb: "undo", turn: turn.turn } });
  }

  undoOnly(turn) {
    this.#preview({ title: `Undo only t${turn.turn}`, confirm: "Undo", body: { verb: "undo", turn: turn.turn, only: true } });
  }

  redo(turn) {
    this.#preview({ title: `Redo up to and including t${turn.turn}`, confirm: "Redo", body: { verb: "redo", turn: turn.turn } });
  }

  restore(turn) {
    this.#preview({ title: `Restore ${nameOf(turn)}`, confirm: "Restore", body: { verb: "restore", to: turn.id, scope: "both" }, options: restoreOptions });
  }

  fork(turn) {
    this.#preview({ title: `Fork files and chat at ${nameOf(turn)}`, confirm: "Fork", body: { verb: "fork", to: turn.id }, options: (body, changed) => [
      field("New directory", body, "dir", changed, "the default is beside the present one"), field("Title", body, "title", changed, "the default is the prompt"),
    ] });
  }

  pin(turn) {
    this.#preview({ title: `Pin ${nameOf(turn)}`, confirm: "Pin", body: { verb: "pin", to: turn.id },
      options: (body, changed) => [field("Name", body, "name", changed, "such as green", true)] });
  }

  unpin(turn, name) {
    this.#preview({ title: `Remove the pin ${name}`, confirm: "Remove", body: { verb: "unpin", to: turn.id, name } });
  }

  rename(thread) {
    this.#preview({ title: "Rename the thread", confirm: "Rename", body: { verb: "rename", thread: thread.id, title: thread.title },
      options: (body, changed) => [field("Title", body, "title", changed, "", true)] });
  }

  remove(thread) {
    this.#preview({ title: "Delete the thread", confirm: "Delete", danger: true, body: { verb: "delete", thread: thread.id } });
  }

  // decide answers a call that waits for approval.
  decide(thread, interrupt, decision) {
    const names = { approve: "Approve", reject: "Reject", edit: "Edit and approve", respond: "Respond" };
    const options = {
      reject: (body, changed) => [field("Reason, for the agent", body, "message", changed, "may be empty")],
      respond: (body, changed) => [field("Answer", body, "message", changed, "", true)],
      edit: (body, changed) => [jsonArea("Input, as JSON", body, "input", changed)],
    };
    const body = { verb: "decide", thread: thread.id, interrupt: interrupt.id, decision };
    if (decision === "edit") body.input = parsed(interrupt.input.text);
    this.#preview({ title: `${names[decision]}: ${interrupt.tool}`, confirm: names[decision], body, options: options[decision], danger: decision === "reject" });
  }

  #preview({ body, ...parts }) {
    if (!this.#mayMove(body)) return;
    previewMove({ api: this.api, body, ...parts, actions: this.#fileActions(body.thread), onDone: (result, plan) => this.#report(result, plan) });
  }

  // mayMove completes the request of a move, and reports whether the store can be moved.
  #mayMove(body) {
    body.thread ??= this.state.thread;
    const refusal = this.state.store?.moves === false && this.state.store.why_no_moves;
    if (refusal) this.toasts.show(refusal);
    return !refusal;
  }

  // atOnce plans a move and makes it without a dialog if the plan is harmless.
  async #atOnce(parts, isHarmless = () => true) {
    if (!this.#mayMove(parts.body)) return;
    try {
      const plan = await this.api.post("previews", parts.body);
      if (plan.steps.length + plan.conflicts.length + plan.kept.length === 0 && parts.body.verb === "restore") this.toasts.show(plan.sentence);
      else if (isHarmless(plan)) await this.apply(plan, parts);
      else this.#preview(parts);
    } catch (err) {
      this.onError(err);
    }
  }

  // apply makes a move that the page has described. The dialog asks first about conflicts, and about a new plan if the
  // described one is out of date.
  async apply(plan, parts) {
    if (plan.conflicts.length > 0) {
      this.#preview(parts);
      return;
    }
    try {
      this.#report(await this.api.move(plan.id, randomKey()), plan);
    } catch (err) {
      if (err.status === 412 || err.status === 404) this.#preview({ ...parts, isNew: true });
      else this.onError(err);
    }
  }

  // fileActions are what the user can do with a path of a thread; see fileActions.
  #fileActions(thread) {
    return { bringBack: (change, before) => this.bringBack([change], before, thread), fileHistory: (change) => this.onHistory(change, thread) };
  }

  // report shows a message about a move that was made, with its undo and with the files that it did not write.
  #report(result, plan) {
    const { conflicts = [], thread } = result;
    this.toasts.show(describe(result), {
      more: conflicts.length > 0 && { text: plural(result.totals?.conflicts ?? conflicts.length, "conflict"), run: () => showConflicts(result, plan, this.#fileActions(thread)) }, hint: [result.notice, result.chat && `Conversation: ${result.chat}.`].filter(Boolean).join(" "),
      undo: result.undo && (() => this.undoMove(result.undo)), isValid: () => this.#isNewest(result), command: commandOf(result) });
    this.onMoved(result);
  }

  // undoMove makes the move that undoes another one.
  undoMove(body) {
    return this.#atOnce({ title: "Undo a move", confirm: "Undo", body: { ...body } });
  }

  // isNewest reports whether the thread is still where a move left it, so that the move can be undone. A fork can be undone
  // until its own thread has a turn.
  #isNewest({ thread, head, revision, fork }) {
    const at = this.state.threads.find((t) => t.id === thread), made = fork && this.state.threads.find((t) => t.id === fork.thread);
    if (made) return made.head === (fork.head ??= made.head);
    return !at || at.revision < revision || at.head === head || Boolean(fork); // a list that was read before the move is no reason
  }
}

function nameOf(turn) {
  return turn.turn > 0 ? `t${turn.turn}` : turn.kind === "base" ? "the beginning" : `this ${turn.kind}`;
}

const done = {
  undo: "Undone", redo: "Redone", restore: "Restored", fork: "Forked", "op-undo": "Move undone", pin: "Pinned", unpin: "Pin removed",
  rename: "Renamed", delete: "Thread deleted", decide: "Answered",
};

function describe(result) {
  if (result.sentence) return result.sentence;
  const where = result.fork?.dir ? ` to ${result.fork.dir}` : "";
  return `${done[result.verb] ?? "Done"}${where}${result.files > 0 ? `, ${plural(result.files, "file")} written` : ""}.`;
}

// commandOf is the command with which the user continues the conversation, or "".
function commandOf(result) {
  if (!(result.run?.length > 0)) return "";
  return `${result.dir ? `cd ${shellWord(result.dir)} && ` : ""}${result.run.map(shellWord).join(" ")}`;
}

function shellWord(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

// restoreOptions are the choice of tiers and of paths.
function restoreOptions(body, changed) {
  const tiers = [["both", "Files and chat"], ["chat", "Chat only"], ["files", "Files only"]];
  const paths = area("Only these paths, one a line", body, "paths", (fields, typed) =>
    changed({ paths: fields.paths.split("\n").map((p) => p.trim()).filter(Boolean) }, typed));
  paths.hidden = true;
  return [
    h("fieldset", { class: "tiers" }, h("legend", {}, "Restore"), tiers.map(([value, label]) => h("label", { class: "check" },
      h("input", { type: "radio", name: "scope", value, checked: value === body.scope, onchange: () => {
        paths.hidden = value !== "files";
        changed({ scope: value, ...(value !== "files" && { paths: undefined }) });
      } }), label))),
    paths,
  ];
}

function field(label, body, name, changed, placeholder, first = false) {
  const input = h("input", { type: "text", value: body[name] ?? "", placeholder, autofocus: first, autocomplete: "off", spellcheck: "false",
    oninput: () => changed({ [name]: input.value.trim() }, true) });
  return h("label", { class: "field" }, h("span", {}, label), input);
}

function area(label, body, name, changed) {
  const input = h("textarea", { rows: 3, spellcheck: "false", oninput: () => changed({ [name]: input.value }, true) });
  input.value = body[name] ?? "";
  return h("label", { class: "field" }, h("span", {}, label), input);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// jsonArea is a field for a value in JSON. While it is malformed, the previous value stays.
function jsonArea(label, body, name, changed) {
  const input = h("textarea", { rows: 8, spellcheck: "false", class: "code", oninput: () => {
    try {
      changed({ [name]: JSON.parse(input.value) }, true);
      input.setCustomValidity("");
    } catch (err) {
      input.setCustomValidity(err.message);
    }
    input.reportValidity();
  } });
  input.value = JSON.stringify(body[name], null, 2);
  return h("label", { class: "field" }, h("span", {}, label), input);
}
