// Search in prompts, answers, tool calls and paths of the whole store.

import { fill, h, button } from "./dom.js";
import { firstLine } from "./format.js";

const pause = 200; // ms after typing
const limit = 30;

export class Search {
  #stop = new AbortController();
  #timer = 0;

  // onOpen(thread, checkpoint) shows a hit.
  constructor(place, { api, state, onOpen, onError }) {
    Object.assign(this, { api, state, onOpen, onError });
    this.cursor = -1;
    this.hits = [];
    this.input = h("input", { type: "search", placeholder: "Search prompts, answers, calls, paths  /", "aria-label": "Search the store", role: "combobox",
      "aria-expanded": "false", "aria-controls": "hits", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/",
      oninput: () => this.#typed(), onfocus: () => this.hits.length > 0 && this.#open(true), onkeydown: (event) => this.#key(event) });
    this.scope = h("input", { type: "checkbox", onchange: () => this.#run() });
    this.list = h("ul", { id: "hits", role: "listbox", "aria-label": "Hits" });
    this.note = h("p", { class: "dim", role: "status" });
    this.panel = h("div", { class: "hits", hidden: true }, h("label", { class: "check" }, this.scope, "Only this thread"), this.list, this.note);
    fill(place, this.input, this.panel);
    place.addEventListener("focusout", (event) => !place.contains(event.relatedTarget) && this.#open(false));
    this.panel.addEventListener("pointerdown", (event) => event.target.tagName !== "INPUT" && event.preventDefault()); // keeps the focus in the field
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  #open(shown) {
    this.panel.hidden = !shown;
    this.input.setAttribute("aria-expanded", String(shown));
  }

  #typed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#run(), pause);
  }

  async #run(cursor = "") {
    this.#stop.abort();
    const q = this.input.value.trim();
    if (q === "") {
      this.hits = [];
      this.#open(false);
      return;
    }
    const stop = (this.#stop = new AbortController());
    this.#open(true);
    fill(this.note, "Searching\u2026");
    try {
      const page = await this.api.get("search", { q, limit, cursor, thread: this.scope.checked ? this.state.thread : "" }, stop.signal);
      this.hits = cursor ? this.hits.concat(page.hits) : page.hits;
      if (!cursor) this.cursor = -1;
      this.#draw(page);
    } catch (err) {
      if (err.name === "AbortError") return;
      fill(this.list);
      fill(this.note, err.message);
    }
  }

  #draw(page) {
    fill(this.list, this.hits.map((hit, i) => this.#hit(hit, i)));
    const more = page.next ? button(page.complete ? "More hits" : "Search further", () => this.#run(page.next), { class: "link" }) : null;
    const text = this.hits.length === 0 ? (page.complete === false ? "No hit so far." : "No hit.") : `${this.hits.length}${page.next ? " or more" : ""} hits.`;
    fill(this.note, text, page.complete === false ? " Part of the store was searched." : "", " ", more);
    this.#mark();
  }

  #hit(hit, i) {
    return h("li", { id: `hit-${i}`, role: "option", "aria-selected": "false", onclick: () => this.#choose(i) },
      h("span", { class: "meta" }, h("span", { class: "turn-name" }, `t${hit.turn}`), h("span", {}, hit.field), h("span", { class: "ellipsis" }, hit.title || this.#title(hit.thread))),
      h("span", { class: "hit-text" }, hit.before, h("mark", {}, hit.match), hit.after));
  }

  #title(thread) {
    return firstLine(this.state.threads.find((t) => t.id === thread)?.title ?? "", 60);
  }

  #key(event) {
    if (event.key === "Escape") {
      this.#open(false);
      this.input.blur();
      document.getElementById("rows")?.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const n = this.hits.length;
      if (n > 0) this.cursor = (this.cursor + (event.key === "ArrowDown" ? 1 : -1) + n) % n;
      this.#mark();
    } else if (event.key === "Enter" && this.hits.length > 0) this.#choose(Math.max(0, this.cursor));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #mark() {
    [...this.list.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === this.cursor)));
    if (this.cursor < 0) this.input.removeAttribute("aria-activedescendant");
    else {
      this.input.setAttribute("aria-activedescendant", `hit-${this.cursor}`);
      this.list.children[this.cursor]?.scrollIntoView({ block: "nearest" });
    }
  }

  #choose(i) {
    const hit = this.hits[i];
    this.#open(false);
    this.onOpen(hit.thread, hit.checkpoint);
  }
}
