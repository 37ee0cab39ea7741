// The left pane: the threads of the store, the most recently changed first.

import { agentIcon } from "./agenticon.js";
import { button, fill, h } from "./dom.js";
import { age, firstLine, baseName, moment, plural } from "./format.js";

const pageSize = 50;
const pause = 150; // ms after typing

const stateNames = {
  running: "running", background: "running in the background", waiting: "waiting for approval", interrupted: "broken off",
};

export class ThreadsPane {
  #next = "";
  #timer = 0;
  #filtered = null; // the threads that match the filter, or null without one

  constructor(place, { api, state, onOpen, onError }) {
    Object.assign(this, { place, api, state, onOpen, onError });
    this.list = h("ul", { class: "thread-list" });
    this.more = button("Show more threads", () => this.#load(this.#next), { class: "more", hidden: true });
    this.filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the threads by title, agent or directory", autocomplete: "off", spellcheck: "false",
      oninput: () => {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#find(), pause);
      } });
    fill(place, h("header", { class: "pane-head threads-head" }, h("h2", {}, "Threads"), this.filter), this.list, this.more);
    state.on("threads", () => this.draw());
    state.on("thread", () => this.draw());
    state.on("experiment", () => this.draw());
    setInterval(() => this.draw(), 30000); // ages
  }

  // find shows the threads that match the filter.
  async #find() {
    const q = this.filter.value.trim();
    if (q === "") {
      this.#filtered = null;
      this.more.hidden = !this.#next;
      this.draw();
      return;
    }
    try {
      const page = await this.api.get("threads", { q, limit: pageSize });
      if (q !== this.filter.value.trim()) return;
      this.#filtered = page.threads;
      this.more.hidden = true;
      this.draw(page.next ? `The first ${pageSize} that match.` : "");
    } catch (err) {
      this.onError(err);
    }
  }

  // load reads the first threads again and keeps further ones that were shown.
  async load() {
    const page = await this.api.get("threads", { limit: pageSize });
    const first = new Set(page.threads.map((t) => t.id));
    const rest = this.#next ? this.state.threads.filter((t) => !first.has(t.id)) : [];
    if (rest.length === 0) this.#next = page.next ?? "";
    this.state.set({ threads: page.threads.concat(rest) });
    if (this.#filtered) await this.#find();
    else this.more.hidden = !this.#next;
  }

  async #load(cursor) {
    try {
      const page = await this.api.get("threads", { limit: pageSize, cursor });
      const known = new Set(this.state.threads.map((t) => t.id));
      this.#next = page.next ?? "";
      this.state.set({ threads: this.state.threads.concat(page.threads.filter((t) => !known.has(t.id))) });
      this.more.hidden = !this.#next;
    } catch (err) {
      this.onError(err);
    }
  }

  draw(note = "") {
    const { threads: all, thread, experiment } = this.state, threads = this.#filtered ?? all;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.thread : "";
    if (this.#filtered && threads.length === 0) {
      fill(this.list, h("li", { class: "empty" }, "No thread matches."));
      return;
    }
    if (threads.length === 0) {
      fill(this.list, h("li", { class: "empty" }, h("p", {}, "No threads yet.")));
      return;
    }
    fill(this.list, threads.map((t) => h("li", {}, this.#item(t, t.id === thread && !experiment))), note && h("li", { class: "empty" }, note));
    if (focused) this.list.querySelector(`[data-thread="${CSS.escape(focused)}"]`)?.focus();
  }

  #item(t, selected) {
    const state = stateNames[t.state] ?? "";
    return h("button", { type: "button", class: `thread ${t.state ?? ""}`, "data-thread": t.id, "aria-current": selected && "true", onclick: () => this.onOpen(t.id) },
      h("span", { class: "thread-title" }, agentIcon(t.agent), " ", firstLine(t.title, 120) || (t.forked_from ? "(fork)" : "(no prompt)")),
      state && h("span", { class: `meta state ${t.state}` }, h("span", { class: "dot", "aria-hidden": "true" }), state),
      h("span", { class: "meta" }, h("time", { datetime: t.time, title: moment(t.time ?? t.created) }, age(t.time ?? t.created)), h("span", {}, plural(t.turns ?? 0, "turn")),
        t.dir && h("span", { class: "dir ellipsis", title: t.dir }, baseName(t.dir)), t.current && h("span", { class: "tag accent" }, "here")));
  }
}
