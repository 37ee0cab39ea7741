// The left pane: the threads of the store, the most recently changed first.

import { button, fill, h } from "./dom.js";
import { age, firstLine, baseName } from "./format.js";

const pageSize = 50;

const stateNames = {
  running: "running", background: "running in the background", waiting: "waiting for approval", interrupted: "broken off",
};

export class ThreadsPane {
  #next = "";

  constructor(place, { api, state, onOpen, onError }) {
    Object.assign(this, { place, api, state, onOpen, onError });
    this.list = h("ul", { class: "thread-list" });
    this.more = button("Show more threads", () => this.#load(this.#next), { class: "more", hidden: true });
    fill(place, h("header", { class: "pane-head" }, h("h2", {}, "Threads")), this.list, this.more);
    state.on("threads", () => this.draw());
    state.on("thread", () => this.draw());
    state.on("experiment", () => this.draw());
    setInterval(() => this.draw(), 60000); // ages
  }

  // load reads the first threads again and keeps further ones that were shown.
  async load() {
    const page = await this.api.get("threads", { limit: pageSize });
    const first = new Set(page.threads.map((t) => t.id));
    const rest = this.#next ? this.state.threads.filter((t) => !first.has(t.id)) : [];
    if (rest.length === 0) this.#next = page.next ?? "";
    this.state.set({ threads: page.threads.concat(rest) });
    this.more.hidden = !this.#next;
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

  draw() {
    const { threads, thread, experiment } = this.state;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.thread : "";
    if (threads.length === 0) {
      fill(this.list, h("li", { class: "empty" }, h("p", {}, "No threads yet."), h("p", {}, "In a project, run ", h("code", {}, "segno enable claude"), " and use the agent, or see one now with ", h("code", {}, "segno demo"), ".")));
      return;
    }
    fill(this.list, threads.map((t) => h("li", {}, this.#item(t, t.id === thread && !experiment))));
    if (focused) this.list.querySelector(`[data-thread="${CSS.escape(focused)}"]`)?.focus();
  }

  #item(t, selected) {
    const state = stateNames[t.state] ?? "";
    return h("button", { type: "button", class: `thread ${t.state ?? ""}`, "data-thread": t.id, "aria-current": selected && "true", onclick: () => this.onOpen(t.id) },
      h("span", { class: "thread-title" }, firstLine(t.title, 120) || (t.forked_from ? "(fork)" : "(no prompt)")),
      state && h("span", { class: `meta state ${t.state}` }, h("span", { class: "dot", "aria-hidden": "true" }), state),
      h("span", { class: "meta" }, h("span", {}, t.agent), h("span", {}, `t${t.turn ?? 0}`), h("span", {}, age(t.time ?? t.created)),
        t.dir && h("span", { class: "dir ellipsis", title: t.dir }, baseName(t.dir)), t.current && h("span", { class: "tag accent" }, "here")));
  }
}
