// The experiments above the threads, if the directory of the runs has some.

import { button, fill, h } from "./dom.js";
import { age, firstLine } from "./format.js";

const pageSize = 20;

// isActive reports whether an experiment may change without a click on the page.
export const isActive = (e) => e.state === "running";

// progress describes how far an experiment is.
export function progress(e) {
  if (!e.generation) return "";
  return `generation ${e.generation} of ${e.generations}`;
}

export class ExperimentList {
  #next = "";

  constructor(place, { api, state, onOpen, onError }) {
    Object.assign(this, { api, state, onOpen, onError });
    this.list = h("ul", { class: "thread-list" });
    this.more = button("Show more experiments", () => this.#load(this.#next), { class: "more", hidden: true });
    this.section = h("section", { class: "experiments", hidden: true, "aria-labelledby": "experiments-title" },
      h("header", { class: "pane-head" }, h("h2", { id: "experiments-title" }, "Experiments")), this.list, this.more);
    place.prepend(this.section);
    state.on("experiments", () => this.draw());
    state.on("experiment", () => this.draw());
  }

  // load reads the first experiments again and keeps further ones that were shown.
  async load() {
    const page = await this.api.get("experiments", { limit: pageSize });
    const first = new Set(page.experiments.map((e) => e.name));
    const rest = this.#next ? this.state.experiments.filter((e) => !first.has(e.name)) : [];
    if (rest.length === 0) this.#next = page.next;
    this.state.set({ experiments: page.experiments.concat(rest) });
  }

  async #load(cursor) {
    try {
      const page = await this.api.get("experiments", { limit: pageSize, cursor });
      const known = new Set(this.state.experiments.map((e) => e.name));
      this.#next = page.next;
      this.state.set({ experiments: this.state.experiments.concat(page.experiments.filter((e) => !known.has(e.name))) });
    } catch (err) {
      this.onError(err);
    }
  }

  draw() {
    const { experiments, experiment } = this.state;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.experiment : "";
    this.section.hidden = experiments.length === 0;
    this.more.hidden = !this.#next;
    fill(this.list, experiments.map((e) => h("li", {}, this.#item(e, e.name === experiment))));
    if (focused) this.list.querySelector(`[data-experiment="${CSS.escape(focused)}"]`)?.focus();
  }

  #item(e, selected) {
    return h("button", { type: "button", class: "thread experiment", "data-experiment": e.name, "aria-current": selected && "true", onclick: () => this.onOpen(e.name) },
      h("span", { class: "thread-title" }, firstLine(e.name, 120)),
      h("span", { class: "meta" }, h("span", { class: `state ${isActive(e) ? "running" : ""}` }, isActive(e) && h("span", { class: "dot", "aria-hidden": "true" }), e.state || h("span", { class: "tag warn" }, "damaged")),
        h("span", {}, progress(e)), e.updated && h("span", {}, age(e.updated))));
  }
}
