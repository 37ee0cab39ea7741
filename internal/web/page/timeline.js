// The middle pane: the checkpoints of a thread as a graph, newest first.

import { button, fill, h } from "./dom.js";
import { agentIcon } from "./agenticon.js";
import { age, counts, dayName, dayOf, firstLine, moment, pathEnd, plural } from "./format.js";
import { drawGraph } from "./graph.js";
import { legend } from "./legend.js";
import { menu } from "./menu.js";
import { Rows } from "./rows.js";
import { actor, badges, foldText, isTurn, namedByContent, spoken, subject } from "./row.js";
import { WindowList } from "./windowlist.js";

const rowHeight = 48; // px; as .row in timeline.css
const tick = 15000; // ms after which ages are written again

export class TimelinePane {
  constructor(place, { api, state, onChoose, onOpen, onError, actions }) {
    Object.assign(this, { place, api, state, onChoose, onOpen, onError, actions });
    this.rows = null;
    this.list = null;
    this.cursor = -1; // the index of the selected row, numbered from the oldest
    this.chosen = ""; // its checkpoint; state.selected follows it a moment later
    this.choices = 0; // how often the user has selected a row
    state.on("from", () => this.#drawHead());
    state.on("threads", () => this.#drawHead());
    this.#build();
  }

  #build() {
    this.headPlace = h("header", { class: "pane-head" });
    this.approvalPlace = h("div", { class: "approvals" });
    this.openPlace = h("div", { class: "open-turn" });
    this.body = h("div", { class: "rows", role: "presentation" });
    this.box = h("div", { class: "scroller", id: "rows", role: "listbox", tabindex: 0, "aria-label": "Checkpoints, newest first" }, this.body);
    this.body.addEventListener("click", (event) => this.#click(event));
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.footPlace = h("div", { class: "hidden-rows" });
    fill(this.place, this.headPlace, this.approvalPlace, this.openPlace, this.box, h("footer", { class: "timeline-foot" }, legend(), this.footPlace));
    setInterval(() => {
      this.list.invalidate();
      if (this.rows?.open) this.#drawOpen();
    }, tick);
    this.list = new WindowList({ scroller: this.box, body: this.body, rowHeight, render: (i) => namedByContent(this.#render(i)), signature: (i) => this.#signature(i),
      onRange: (first, last) => this.rows?.ensure(this.rows.total - last, this.rows.total - first) });
  }

  // load shows a thread. select is the checkpoint to select; without it the head is selected.
  async load(thread, select = "") {
    this.rows?.close();
    this.rows = null;
    this.cursor = -1;
    this.list.setCount(0);
    this.list.draw();
    this.#drawHead();
    fill(this.openPlace);
    this.#loadUsage(thread);
    if (!thread) return;
    this.box.hidden = false;
    const rows = (this.rows = new Rows(this.api, thread, (first, last) => this.#changed(rows, first, last), this.onError));
    try {
      await rows.refresh(0, 0);
      if (rows !== this.rows) return;
      this.box.scrollTop = 0;
      const wanted = select || rows.head;
      const index = wanted ? await rows.around(wanted) : rows.total - 1;
      if (rows === this.rows) this.select(index >= 0 ? index : rows.total - 1, { center: true });
    } catch (err) {
      if (err.name !== "AbortError") this.onError(err);
    }
  }

  // loadUsage shows the tokens and the cost of the thread.
  async #loadUsage(thread) {
    if (thread !== this.used?.thread) this.used = { thread, text: "" };
    if (!thread || this.used.isLoading) return;
    const used = this.used;
    used.isLoading = true;
    try {
      used.text = (await this.api.get(`threads/${encodeURIComponent(thread)}/usage`)).text;
      if (used === this.used) this.#drawHead();
    } catch (err) {
      if (err.kind !== "not_found") this.onError(err); // the thread was deleted
    } finally {
      used.isLoading = false;
    }
  }

  // showEmpty shows an element in place of the rows, until a thread is loaded.
  showEmpty(element) {
    this.box.hidden = true;
    fill(this.openPlace, element);
  }

  // refresh loads the rows in view again, after a change of the thread.
  async refresh() {
    const rows = this.rows;
    if (!rows) return;
    const [first, last] = this.list.range();
    const { choices } = this, atHead = this.chosen === rows.head;
    try {
      await rows.refresh(first, last);
    } catch (err) {
      if (err.name !== "AbortError") this.onError(err);
      return;
    }
    if (rows !== this.rows) return;
    this.#loadUsage(this.used?.thread);
    const at = rows.find(this.chosen);
    // If the user has selected a row meanwhile, that row stays.
    if (choices === this.choices && atHead && !this.state.from) this.#follow(rows);
    else this.#moveCursor(at);
    this.list.invalidate();
  }

  // toggleFold shows or hides the lines that begin at a checkpoint. They are below its row, so that the row stays in place.
  toggleFold(row) {
    const { open } = this.rows.view;
    return this.#showView({ open: row.view.fold.open ? open.filter((id) => id !== row.id) : open.concat(row.id) }, row.id);
  }

  // showView loads the rows of another view. If the selected row is not in it, fallback is selected.
  async #showView(view, fallback = "") {
    const rows = this.rows, [first, last] = this.list.range();
    this.keepScroll = true;
    try {
      await rows.show(view, first, last);
    } catch (err) {
      if (err.name !== "AbortError") this.onError(err);
      return;
    } finally {
      this.keepScroll = false;
    }
    if (rows !== this.rows) return;
    const at = rows.find(this.chosen), other = rows.find(fallback || rows.head);
    if (at >= 0) this.#moveCursor(at);
    else if (other >= 0) this.select(other, { quiet: true });
    this.list.invalidate();
  }

  // moveCursor sets the index of the selected row, which changes with the rows above and below it. It ignores -1.
  #moveCursor(index) {
    if (index < 0) return;
    this.cursor = index;
    this.box.setAttribute("aria-activedescendant", `row-${index}`);
  }

  // follow keeps the selection at the head when the head moves.
  #follow(rows) {
    const index = rows.find(rows.head);
    if (index < 0 || rows.get(index).id === this.chosen) {
      this.cursor = index >= 0 ? index : this.cursor;
      return;
    }
    this.select(index, { quiet: true });
  }

  async show(checkpoint) {
    this.choices++; // a refresh under way must not select the head again
    const rows = this.rows;
    const index = await rows.around(checkpoint);
    if (index >= 0 && rows === this.rows) this.select(index, { center: true });
  }

  // select selects a row by its index.
  select(index, { center = false, quiet = false } = {}) {
    const rows = this.rows;
    if (!rows || rows.total === 0) return;
    index = Math.max(0, Math.min(rows.total - 1, index));
    const before = this.cursor;
    this.cursor = index;
    const row = rows.get(index);
    this.chosen = row?.id ?? "";
    if (!quiet || this.box.scrollTop < rowHeight) this.list.show(this.#position(index), center);
    for (const i of [before, index]) if (i >= 0) this.list.invalidate(this.#position(i), this.#position(i) + 1);
    this.box.setAttribute("aria-activedescendant", `row-${index}`);
    if (row) this.onChoose(row);
    else this.wanted = index;
  }

  // move changes the selection by a number of rows in the direction of the screen.
  move(by) {
    this.choices++;
    this.select(this.cursor - by);
  }

  // current is the selected row, or null while it is not loaded.
  get current() {
    const row = this.rows?.get(this.cursor);
    return row?.id === this.chosen ? row : null;
  }

  focus() {
    this.box.focus({ preventScroll: true });
  }

  #position(index) {
    return this.rows.total - 1 - index;
  }

  #changed(rows, first, last) {
    if (rows !== this.rows) return;
    if (first === undefined) {
      const grown = rows.total - this.list.count;
      const top = this.box.scrollTop;
      this.list.setCount(rows.total);
      this.#moveCursor(rows.find(this.chosen));
      if (!this.keepScroll && grown > 0 && top > rowHeight && this.list.count > grown) this.box.scrollTop = top + grown * rowHeight;
      this.list.invalidate();
      this.list.draw();
      this.#drawOpen();
      this.#drawHead();
      this.#drawFoot();
    } else this.list.invalidate(rows.total - last, rows.total - first);
    if (this.wanted >= 0 && rows.get(this.wanted)) {
      const row = rows.get(this.wanted);
      this.wanted = -1;
      this.chosen = row.id;
      this.onChoose(row);
    }
  }

  #drawHead() {
    if (this.headPlace.querySelector("[aria-expanded=true]")) return; // the user is in the menu
    const isAtMenu = Boolean(this.headPlace.querySelector(".menu > button:focus"));
    const thread = this.state.currentThread, { actions, state } = this;
    if (!thread) {
      fill(this.headPlace, h("h2", {}, "Timeline"));
      return;
    }
    const compare = state.from && h("p", { class: "compare-bar" }, "Choose the checkpoint to compare with, or ",
      button("the files now", () => actions.comparePresent()), " ", button("Cancel", () => actions.endCompare()));
    fill(this.headPlace, h("h2", { title: thread.title, class: "ellipsis" }, agentIcon(thread.agent), " ", firstLine(thread.title, 200) || "(no title)"),
      h("div", { class: "head-row" },
        h("p", { class: "dim ellipsis", title: thread.dir }, [plural(thread.turns, "turn"), pathEnd(thread.dir), this.used?.thread === thread.id && this.used.text].filter(Boolean).join(" \u00b7 ")),
        menu("More about this thread", [["Rename\u2026", () => actions.rename(thread)], ["Delete\u2026", () => actions.remove(thread), { class: "bad-text" }]])),
      thread.forked_from && h("p", { class: "dim" }, "Forked from ", button("another thread", () => actions.open(thread.forked_from.thread, thread.forked_from.checkpoint), { class: "link" })),
      compare);
    if (isAtMenu) this.headPlace.querySelector(".menu > button").focus();
  }

  // drawFoot tells how many checkpoints of segno are hidden.
  #drawFoot() {
    const { hidden, own } = this.rows?.view ?? {};
    fill(this.footPlace, (hidden > 0 || own) && button(own ? "Hide segno's own checkpoints" : `${plural(hidden, "checkpoint")} of segno hidden \u00b7 show`,
      () => this.#showView({ own: !own }), { class: "link" }));
  }

  // drawOpen shows the turn that runs now, above the rows.
  #drawOpen() {
    const open = this.rows?.open;
    if (!open) {
      fill(this.openPlace);
      return;
    }
    const state = open.ended ? "running in the background" : open.running === false ? "broken off" : "running";
    fill(this.openPlace, h("div", { class: `open-row ${open.running === false ? "broken" : ""}`, role: "status" },
      h("span", { class: "dot running", "aria-hidden": "true" }),
      h("div", {}, h("p", { class: "subject" }, firstLine(open.prompt) || "(no prompt)"),
        h("p", { class: "meta" }, h("span", {}, state), h("span", {}, age(open.start)),
          open.calls > 0 && h("span", {}, plural(open.calls, "call")), open.last_call && h("span", { class: "ellipsis" }, open.last_call),
          open.tasks?.length > 0 && h("span", {}, plural(open.tasks.length, "task"))))));
  }

  // signature has all that a row shows; ages change it, too.
  #signature(position) {
    const index = this.rows.total - 1 - position, row = this.rows.get(index);
    return row ? JSON.stringify([row, row.id === this.chosen, this.state.from === row.id, age(row.time), this.rows.total, this.#firstOfDay(row)]) : "";
  }

  // firstOfDay is the name of a row's day if the row above it is of another day.
  #firstOfDay(row) {
    const above = this.rows.get(row.index + 1);
    if (row.view.inner || (!above && row.index + 1 < this.rows.total)) return "";
    for (let i = row.index + 1, other; (other = this.rows.get(i)); i++) {
      if (!other.view.inner) return dayOf(other.time) === dayOf(row.time) ? "" : dayName(row.time);
    }
    return dayName(row.time);
  }

  #render(position) {
    const index = this.rows.total - 1 - position, row = this.rows.get(index);
    const selected = row ? row.id === this.chosen : index === this.cursor;
    const props = { id: `row-${index}`, role: "option", "aria-selected": selected, "aria-setsize": this.rows.total, "aria-posinset": position + 1 };
    if (!row) return h("div", { ...props, class: "row loading", "aria-label": "Loading" });
    const day = this.#firstOfDay(row), fold = foldText(row), who = actor(row);
    const name = ["row", row.undone && "undone", row.files?.deleted > 0 && !row.undone && "deletes", day && "first-of-day", selected && "selected", this.state.from === row.id && "compared"].filter(Boolean).join(" ");
    return h("div", { ...props, class: name, "aria-label": spoken(row) },
      drawGraph(row, rowHeight),
      h("div", { class: "row-text" },
        h("div", { class: "subject" }, subject(row)),
        h("div", { class: "meta" },
          isTurn(row) && h("span", { class: "turn-name" }, `t${row.turn}`),
          who && who !== this.state.currentThread?.agent && h("span", {}, who),
          row.head && h("span", { class: "tag accent" }, "you are here"),
          fold && h("span", { class: "tag fold", "data-fold": row.index, title: "Right and Left arrow show and hide them" }, fold),
          counts(row.files).map(([word, n]) => h("span", { class: word }, `${n} ${word}`)),
          row.shell > 0 && h("span", {}, plural(row.shell, "command")),
          row.pins?.map((pin) => h("span", { class: "tag pin" }, pin)),
          badges({ ...row, head: false }),
          row.forks?.map((fork) => h("span", { class: "tag fork", title: fork.title, onclick: () => this.actions.open(fork.thread, fork.checkpoint) }, "fork")))),
      h("div", { class: "row-time" }, day && h("span", { class: "day" }, day), h("time", { datetime: row.time, title: moment(row.time) }, age(row.time))));
  }

  // click finds the row by the position: the row's element may have been replaced since the click began.
  #click(event) {
    if (event.target.closest(".fork")) return;
    const fold = event.target.closest("[data-fold]"), folded = fold && this.rows.get(Number(fold.dataset.fold));
    if (folded) {
      this.toggleFold(folded);
      return;
    }
    const position = Math.floor((event.clientY - this.body.getBoundingClientRect().top) / rowHeight);
    if (position < 0 || position >= this.list.count) return;
    this.choices++;
    this.select(this.rows.total - 1 - position);
    this.focus();
    this.onOpen();
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const { current } = this, fold = current?.view.fold;
    if (event.key === "Enter") this.onOpen();
    else if (fold && (event.key === "ArrowRight" ? !fold.open : event.key === "ArrowLeft" && fold.open)) this.toggleFold(current);
    else if (event.key in moves && !event.altKey && !event.ctrlKey && !event.metaKey) {
      const by = moves[event.key];
      if (Number.isFinite(by)) this.move(by);
      else this.select(by < 0 ? this.rows.total - 1 : 0);
    } else return;
    event.preventDefault();
  }
}
