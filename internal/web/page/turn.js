// The right pane: one checkpoint with its prompt, answer, tool calls and changed files.

import { callList } from "./calls.js";
import { changeList } from "./changes.js";
import { button, fill, h } from "./dom.js";
import { fileActions } from "./fileactions.js";
import { moment, plural } from "./format.js";
import { longText } from "./longtext.js";
import { menu } from "./menu.js";
import { markdown } from "./markdown.js";
import { badges, isTurn, subject } from "./row.js";

const mostDeleted = 20; // deleted files above the prompt

export class TurnPane {
  #stop = new AbortController();

  // actions has undo, undoOnly, redo, restore, fork, pin, unpin and compare; each gets the checkpoint. bringBack and fileHistory get a change.
  constructor(place, { api, state, actions, onError }) {
    Object.assign(this, { place, api, state, actions, onError });
    state.on("selected", (id) => this.show(id));
    state.on("store", () => this.shown && this.show(this.shown, { keepScroll: true })); // it decides about the buttons
    this.shown = "";
    this.showNothing();
  }

  showNothing() {
    this.#stop.abort();
    this.shown = "";
    fill(this.place, h("div", { class: "pane-empty" }, h("p", {}, "Select a turn to see its prompt, its answer and the files it changed.")));
  }

  // show loads a checkpoint. The previous one stays until the next has arrived.
  async show(id, { keepScroll = false } = {}) {
    if (!id) return this.showNothing();
    this.#stop.abort();
    const stop = (this.#stop = new AbortController());
    this.place.setAttribute("aria-busy", "true");
    try {
      const turn = await this.api.get(`checkpoints/${encodeURIComponent(id)}`, {}, stop.signal);
      const top = this.place.scrollTop;
      this.#fill(turn, stop.signal);
      this.place.scrollTop = keepScroll ? top : 0;
      this.shown = id;
      this.row = turn;
      if (isTurn(turn)) this.#loadUsage(id, stop.signal);
    } catch (err) {
      if (err.name === "AbortError") return;
      fill(this.place, h("div", { class: "pane-empty" }, h("p", {}, err.message), err.hint && h("p", { class: "dim" }, err.hint)));
      this.onError(err);
    } finally {
      if (this.#stop === stop) this.place.removeAttribute("aria-busy");
    }
  }

  // loadUsage shows the tokens and the cost of the turn, which take longer to read than the rest.
  async #loadUsage(id, signal) {
    try {
      const { text } = await this.api.get(`checkpoints/${encodeURIComponent(id)}/usage`, {}, signal);
      if (text) this.place.querySelector(".usage")?.replaceChildren(` \u00b7 ${text}`);
    } catch (err) {
      if (err.name !== "AbortError") this.onError(err);
    }
  }

  // isOutdated reports whether a row of the timeline differs from the turn that is shown: its
  // pins, its place on the line, or the work of its background tasks.
  isOutdated(row) {
    const marks = (r) => JSON.stringify([r.on_line, r.undone, r.head, r.running, r.pins]);
    return marks(row) !== marks(this.row);
  }

  #fill(turn, signal) {
    const path = `checkpoints/${encodeURIComponent(turn.id)}`;
    const text = (part, call) => (offset, n) => this.api.get(`${path}/text`, { part, call, offset, n }, signal);
    fill(this.place, this.#head(turn), this.#deleted(turn),
      section("Notes", turn.notes?.length > 0 && h("ul", { class: "notes" }, turn.notes.map((n) => h("li", {}, n)))),
      section("Prompt", turn.prompt && longText(asValue(turn.prompt, turn.prompt_bytes_total),
        { load: text("prompt"), render: (t) => h("div", { class: "prompt" }, t), name: "of the prompt" })),
      section(`Tool calls`, turn.calls?.length > 0 && callList(turn.calls, turn.calls_total ?? turn.calls.length, { text,
        pathOf: (call) => this.#pathOf(turn, call), onHistory: (name) => this.actions.fileHistory({ path: name }),
        more: async (from) => (await this.api.get(path, { calls_from: from }, signal)).calls }), turn.calls_total ?? turn.calls?.length),
      section("Answer", turn.answer?.text && longText(turn.answer,
        { load: text("answer"), render: (t) => h("div", { class: "markdown" }, markdown(t)), name: "of the answer" })),
      this.#files(turn, path, signal),
      section("Outside the workspace, not recorded", turn.outside?.length > 0 && h("ul", { class: "paths" }, turn.outside.map((p) => h("li", {}, p)))),
      section("Not saved", turn.unread?.length > 0 && h("ul", { class: "paths" }, turn.unread.map((p) => h("li", {}, p)))),
      this.#details(turn));
  }

  #head(turn) {
    const { actions } = this;
    const act = (name, run, key, props) => button(name, () => run(turn), { title: `${name} (${key})`, "aria-keyshortcuts": key, ...props });
    return h("header", { class: "turn-head" },
      h("h2", {}, h("span", { class: "turn-name" }, isTurn(turn) ? `t${turn.turn}` : turn.kind), " ", subject(turn)),
      h("p", { class: "dim" }, [turn.agent, moment(turn.time)].filter(Boolean).join(", "),
        h("span", { class: "usage", title: "The tokens that the agent's models read and wrote in this turn" }), badges(turn)),
      h("div", { class: "actions", role: "toolbar", "aria-label": "Moves" },
        isTurn(turn) && turn.on_line && act(turn.head ? "Undo\u2026" : "Undo back to here\u2026", actions.undo, "U"),
        isTurn(turn) && turn.on_line === false && act("Redo up to here\u2026", actions.redo, "U"),
        act("Restore\u2026", actions.restore, "R"),
        act("Fork files and chat\u2026", actions.fork, "f"),
        isTurn(turn) && this.state.store?.share && [
          button("Copy", () => actions.copy(turn), { title: "Copy the prompt, the calls and the answer as Markdown", "aria-label": "Copy the turn as Markdown" }),
          button("Share", () => actions.share(turn), { title: "Save the turn as one page for others, without secrets", "aria-label": "Share the turn as a page" })],
        menu("More about this checkpoint", [
          isTurn(turn) && turn.on_line && !turn.head && ["Undo only this turn\u2026", () => actions.undoOnly(turn)], ["Pin\u2026", () => actions.pin(turn), { "aria-keyshortcuts": "p" }], ["Compare", () => actions.compare(turn), { "aria-keyshortcuts": "c" }]])),
      turn.forks?.length > 0 && h("p", { class: "dim forks" }, "Forked to ", turn.forks.map((f) => [button(f.title || "another thread", () => actions.open(f.thread, f.checkpoint), { class: "link" }), " "])),
      turn.pins?.length > 0 && h("ul", { class: "pins" }, turn.pins.map((name) =>
        h("li", {}, name, " ", button("\u00d7", () => actions.unpin(turn, name), { class: "quiet", "aria-label": `Remove the pin ${name}` })))));
  }

  // pathOf is the path in the workspace that a call names, such as the file that a tool wrote, or "".
  #pathOf(turn, call) {
    const dir = `${this.state.currentThread?.dir ?? ""}/`, title = call.title ?? "";
    const isInside = dir !== "/" && title.startsWith(dir) && !/\s-|[\n;|&]/.test(title); // and not a command
    const name = isInside ? title.slice(dir.length) : title;
    return isInside || turn.changes.some((c) => c.path === name) ? name : "";
  }

  // deletedFiles are the files that a turn deleted and that can come back.
  #deletedFiles(turn) {
    return turn.before ? turn.changes.filter((c) => c.sign === "-" && c.type !== "dir" && c.type !== "database") : [];
  }

  // bringBackDeleted brings back all files that the turn deleted, also those beyond the changes that the pane has.
  async bringBackDeleted() {
    const turn = this.row, { thread } = this.state;
    if (!turn || turn.id !== this.shown || this.#deletedFiles(turn).length === 0) return;
    try {
      this.actions.bringBackAll(this.#deletedFiles({ ...turn, changes: await this.#allChanges(turn) }), turn.before, thread);
    } catch (err) {
      this.onError(err);
    }
  }

  async #allChanges(turn) {
    let all = turn.changes;
    for (let more = all; all.length < (turn.changes_total ?? 0) && more.length > 0; all = all.concat(more)) {
      more = (await this.api.get(`checkpoints/${encodeURIComponent(turn.id)}`, { changes_from: all.length })).changes;
    }
    return all;
  }

  // deleted lists the deleted files before all else, because they are what a reader looks for.
  #deleted(turn) {
    const files = this.#deletedFiles(turn), shown = files.slice(0, mostDeleted);
    if (files.length === 0) return null;
    const count = turn.changes.length < turn.changes_total ? Math.max(files.length, turn.files?.deleted ?? 0) : files.length;
    return h("section", { class: "section deleted-files" },
      h("h3", {}, `${plural(count, "file")} deleted`, count > 1 && button(`Bring back all ${count}`, () => this.bringBackDeleted(), { class: "small accent-text", title: "b", "aria-keyshortcuts": "b" })),
      changeList(this.api, shown, { total: shown.length, openFirst: 0, diff: () => ({ from: turn.before, to: turn.id }), actions: (change) => fileActions(this.actions, change, turn.before) }),
      count > shown.length && h("p", { class: "dim" }, `and ${count - shown.length} more, below`));
  }

  // files lists the changes, without the deleted files that are listed above.
  #files(turn, path, signal) {
    const total = turn.changes_total ?? turn.changes?.length ?? 0, deleted = this.#deletedFiles(turn);
    if (total === 0) return section("Files", h("p", { class: "empty" }, "This turn changed no files."));
    const isWhole = total === turn.changes.length && deleted.length <= mostDeleted;
    const changes = isWhole && deleted.length > 0 ? turn.changes.filter((c) => c.sign !== "-") : turn.changes;
    if (changes.length === 0) return null;
    const count = isWhole ? changes.length : total;
    return section(deleted.length > 0 && isWhole ? "Other files" : "Files", changeList(this.api, changes, { total: count, diff: () => turn.before && { from: turn.before, to: turn.id },
      actions: (change) => fileActions(this.actions, change, turn.before),
      more: async (from) => (await this.api.get(path, { changes_from: from }, signal)).changes }), count);
  }

  #details(turn) {
    const rows = [["Checkpoint", turn.id], ["Session", turn.session?.session ?? turn.session], ["Continued as", turn.fidelity], ["Snapshot", turn.snapshot]].filter(([, v]) => v);
    return h("details", { class: "section facts" }, h("summary", {}, "Details"),
      h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])));
  }
}

// section is a part of the pane with its heading; without content it is left out.
function section(title, content, count) {
  return content && h("section", { class: "section" }, h("h3", {}, title, count > 0 && h("span", { class: "count" }, count.toLocaleString("en"))), content);
}

function asValue(prompt, total) {
  if (typeof prompt === "object") return prompt;
  const size = new TextEncoder().encode(prompt).length;
  return { text: prompt, bytes: total ?? size, truncated: total > size };
}
