// The calls of a thread that wait for the user's approval, above its timeline.

import { button, fill, h } from "./dom.js";
import { longText } from "./longtext.js";

export class Approvals {
  constructor(place, { api, state, moves, onError }) {
    Object.assign(this, { place, api, state, moves, onError });
    this.waiting = [];
    state.on("thread", () => this.load());
    state.on("threads", () => this.load());
  }

  async load() {
    const thread = this.state.currentThread;
    if (thread?.state !== "waiting") {
      this.#draw(thread, []);
      return;
    }
    try {
      const details = await this.api.get(`threads/${encodeURIComponent(thread.id)}`);
      if (this.state.thread === thread.id) this.#draw(thread, details.interrupts ?? []);
    } catch (err) {
      this.onError(err);
    }
  }

  // decide answers the first call that waits; the keyboard uses it.
  decide(decision) {
    const [first] = this.waiting;
    if (first) this.moves.decide(this.state.currentThread, first, decision);
  }

  #draw(thread, waiting) {
    const key = JSON.stringify(waiting.map((i) => i.id));
    if (key === this.drawn) return; // keeps the focus in a card
    this.drawn = key;
    this.waiting = waiting;
    fill(this.place, waiting.map((i) => this.#card(thread, i)));
  }

  #card(thread, interrupt) {
    const decide = (decision) => () => this.moves.decide(thread, interrupt, decision);
    const may = (decision) => !interrupt.allowed?.length || interrupt.allowed.includes(decision);
    const input = typeof interrupt.input === "object" && "text" in (interrupt.input ?? {}) ? interrupt.input : { text: JSON.stringify(interrupt.input ?? "", null, 1) };
    return h("section", { class: "approval", "aria-label": `Waiting for approval: ${interrupt.tool}` },
      h("h3", {}, h("span", { class: "dot", "aria-hidden": "true" }), `The agent waits for approval: ${interrupt.title || interrupt.tool || "a question"}`),
      longText(input, { load: async () => ({ text: "", next: 0 }), render: (t) => h("pre", { class: "code", tabindex: 0 }, t), name: "" }),
      h("div", { class: "actions" },
        may("approve") && button("Approve", decide("approve"), { class: "accent", "aria-keyshortcuts": "a" }),
        may("reject") && button("Reject\u2026", decide("reject"), { "aria-keyshortcuts": "x" }),
        may("edit") && button("Edit\u2026", decide("edit")),
        may("respond") && button("Respond\u2026", decide("respond"))));
  }
}
