// Search in what happened: changed paths, commands, outputs, answers and prompts of the whole store.

import { fill, h, button } from "./dom.js";
import { fileActions } from "./fileactions.js";
import { age, firstLine, moment, plural } from "./format.js";

const pause = 200; // ms after typing
const limit = 30;

// filters are the questions, as the request names them. A question about an action needs no words.
const filters = [["", "All"], ["deleted", "Deleted"], ["created", "Created"], ["changed", "Changed"], ["renamed", "Renamed"], ["tool", "Commands"], ["answer", "Answers"], ["prompt", "Prompts"]];
const actions = new Set(["deleted", "created", "changed", "renamed"]);

const signs = { created: "+", changed: "~", deleted: "-", renamed: "-" }; // a renamed path is gone from where it was
const fieldNames = { prompt: "prompt", answer: "answer", tool: "call", output: "output" };
const actionTones = { deleted: "bad", renamed: "warn", created: "good", changed: "" };

export class Search {
  #stop = new AbortController();
  #timer = 0;

  // onOpen(thread, checkpoint) shows a hit. actions are those of a file.
  constructor(place, { api, state, actions, onOpen, onError }) {
    Object.assign(this, { api, state, actions, onOpen, onError });
    this.cursor = -1;
    this.hits = [];
    this.input = h("input", { type: "search", placeholder: "Search", "aria-label": "Search the store", role: "combobox",
      "aria-expanded": "false", "aria-haspopup": "grid", "aria-controls": "hits", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/",
      oninput: () => this.#typed(), onfocus: () => this.#open(true), onkeydown: (event) => this.#key(event) });
    const isNarrow = matchMedia("(max-width: 560px)");
    const hint = () => { this.input.placeholder = isNarrow.matches ? "Search" : "Search: deleted:name, commands, answers  /"; };
    isNarrow.addEventListener("change", hint);
    hint();
    this.scope = h("input", { type: "checkbox", onchange: () => this.#run() });
    this.filters = h("fieldset", { class: "filters" }, h("legend", { class: "unseen" }, "What to find"), filters.map(([value, label]) =>
      h("label", { class: "chip" }, h("input", { type: "radio", name: "what", value, checked: value === "", onchange: () => this.#filtered() }), h("span", {}, label))));
    this.list = h("div", { id: "hits", class: "hit-list", role: "grid", "aria-label": "Hits", onkeydown: (event) => this.#actionKey(event) });
    this.note = h("p", { class: "dim", role: "status" });
    this.panel = h("div", { class: "hits", hidden: true }, this.filters, this.list,
      h("div", { class: "hits-foot" }, this.note, h("label", { class: "check" }, this.scope, "Only this thread")));
    fill(place, this.input, this.panel);
    place.addEventListener("focusout", (event) => !place.contains(event.relatedTarget) && this.#open(false));
    this.panel.addEventListener("pointerdown", (event) => event.target.tagName !== "INPUT" && event.preventDefault()); // keeps the focus in the field
    this.filters.addEventListener("pointerdown", () => { this.pointed = true; });
    this.panel.addEventListener("keydown", (event) => event.key === "Escape" && this.#leave(event));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  #open(shown) {
    if (!shown) clearTimeout(this.#timer); // a search would open the panel again
    this.panel.hidden = !shown;
    this.input.setAttribute("aria-expanded", String(shown));
    if (shown && this.hits.length === 0) this.#hint();
  }

  #hint() {
    fill(this.note, "A path, a command, or words of an answer. Before a path, ", h("code", {}, "deleted:"), " finds the turn that deleted it.");
  }

  get #what() {
    return this.filters.querySelector("input:checked").value;
  }

  // filtered searches with a new filter. After a click the user types on; the keys of a radio button stay with it.
  #filtered() {
    if (this.pointed) this.input.focus();
    this.pointed = false;
    this.#run();
  }

  // query returns the words and the filter. A filter that is typed before a colon counts, and is shown.
  #query() {
    const text = this.input.value.trim(), typed = text.match(/^(\w+):\s*(.*)$/s);
    const value = filters.find(([name]) => name && name === typed?.[1].toLowerCase())?.[0];
    if (!value) return { q: text, what: this.#what };
    this.filters.querySelector(`[value="${value}"]`).checked = true;
    this.typed = true;
    return { q: typed[2], what: value };
  }

  #typed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.typed && !this.input.value.includes(":")) this.filters.querySelector("input").checked = true; // the typed filter was deleted
      this.typed = false;
      this.#run();
    }, pause);
  }

  async #run(cursor = "") {
    this.#stop.abort();
    const { q, what } = this.#query();
    if (q === "" && !actions.has(what)) {
      this.hits = [];
      fill(this.list);
      this.#hint();
      return;
    }
    const stop = (this.#stop = new AbortController());
    this.#open(true);
    fill(this.note, "Searching\u2026");
    try {
      const page = await this.api.get("search", { q, what, limit, cursor, thread: this.scope.checked ? this.state.thread : "" }, stop.signal);
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
    const text = this.hits.length === 0 ? (page.complete === false ? "No hit so far." : "No hit.") : `${plural(this.hits.length, "hit")}${page.next ? " or more" : ""}.`;
    fill(this.note, text, page.complete === false ? " Part of the store was searched." : "", " ", more);
    this.#mark();
  }

  #hit(hit, i) {
    const isTurn = hit.kind === "turn" || hit.kind === "step", { touched } = hit;
    const action = touched?.action, by = touched?.call;
    const actions = this.#fileActions(hit);
    return h("div", { id: `hit-${i}`, class: "hit", role: "row", "aria-selected": "false", onclick: (event) => !event.target.closest("button") && this.#choose(i) }, h("div", { class: "hit-body", role: "gridcell" },
      h("span", { class: "meta" },
        h("span", { class: `word ${actionTones[action] ?? ""}` }, action ?? fieldNames[hit.field]),
        isTurn ? h("span", { class: "turn-name" }, `t${hit.turn}`) : h("span", {}, hit.kind === "external" ? "not by a turn" : hit.kind),
        hit.undone && h("span", { class: "tag" }, "undone"),
        h("time", { datetime: hit.time, title: moment(hit.time) }, age(hit.time)),
        h("span", { class: "ellipsis" }, firstLine(hit.title, 60) || this.#title(hit.thread))),
      h("span", { class: `hit-text of-${hit.field}` }, hit.before, hit.match && h("mark", {}, hit.match), hit.after, renamed(hit), hit.more > 0 && h("span", { class: "dim" }, ` and ${hit.more} more`)),
      by && h("span", { class: "hit-by ellipsis" }, h("span", { class: "dim" }, `by ${by.tool} `), !by.title.endsWith(`/${touched.path}`) && h("code", {}, by.title)),
      hit.prompt && hit.field !== "prompt" && h("span", { class: "hit-by ellipsis dim" }, "\u201c", hit.prompt, "\u201d")),
      actions.length > 0 && h("div", { class: "hit-actions", role: "gridcell" }, actions));
  }

  // fileActions returns the buttons of a hit that is a path. They close the panel, because it would cover what they show.
  #fileActions({ touched, thread, files_before: before }) {
    if (!touched) return [];
    const isMoved = touched.action === "renamed", path = isMoved ? touched.from : touched.path, path_bytes = isMoved ? touched.from_bytes : touched.path_bytes;
    const leaving = (run) => (...args) => {
      this.#open(false);
      this.input.blur();
      run(...args, thread);
    };
    const { bringBack, fileHistory } = this.actions;
    const all = fileActions({ bringBack: leaving(bringBack), fileHistory: leaving(fileHistory) }, { path, path_bytes, sign: signs[touched.action] }, before);
    all.forEach((b) => b.setAttribute("tabindex", "-1")); // the arrow keys reach them
    return all;
  }

  // actionKey handles a key at a button of a hit.
  #actionKey(event) {
    const row = event.target.closest(".hit"), all = [...row.querySelectorAll("button")], at = all.indexOf(event.target);
    if (event.key === "ArrowRight") all[Math.min(at + 1, all.length - 1)].focus();
    else if (event.key === "ArrowLeft" && at > 0) all[at - 1].focus();
    else if (event.key === "ArrowLeft") this.input.focus();
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.input.focus();
      this.#key(event);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #title(thread) {
    return firstLine(this.state.threads.find((t) => t.id === thread)?.title ?? "", 60);
  }

  #leave(event) {
    this.#open(false);
    this.input.blur();
    document.getElementById("rows")?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  #key(event) {
    if (event.key === "Escape") {
      this.#leave(event);
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const n = this.hits.length;
      if (n > 0) this.cursor = (this.cursor + (event.key === "ArrowDown" ? 1 : -1) + n) % n;
      this.#mark();
    } else if (event.key === "ArrowRight" && this.cursor >= 0 && this.input.selectionEnd === this.input.value.length) this.list.children[this.cursor].querySelector("button")?.focus();
    else if (event.key === "Enter" && this.hits.length > 0) this.#choose(Math.max(0, this.cursor));
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
    this.input.blur(); // on a phone, the keyboard would cover the turn
    this.onOpen(hit.thread, hit.checkpoint);
  }
}

// renamed is the other name of a path that has a new one.
function renamed({ touched, before, match, after }) {
  if (touched?.action !== "renamed") return "";
  return before + match + after === touched.from ? ` \u2192 ${touched.path}` : ` (before: ${touched.from})`;
}
