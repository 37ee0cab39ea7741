// The calls of a thread that wait for the user's approval, above its timeline.

import { button, fill, h } from "./dom.js";

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
    const key = JSON.stringify([thread?.id, waiting.map((i) => i.id)]);
    if (key === this.drawn) return; // keeps the focus in a card
    this.drawn = key;
    this.waiting = waiting;
    fill(this.place, waiting.map((i) => this.#card(thread, i)));
  }

  #card(thread, interrupt) {
    const decide = (decision) => () => this.moves.decide(thread, interrupt, decision);
    const may = (decision) => !interrupt.allowed?.length || interrupt.allowed.includes(decision);
    return h("section", { class: "approval", "aria-label": `Waiting for approval: ${interrupt.tool}` },
      h("h3", {}, h("span", { class: "dot", "aria-hidden": "true" }), `The agent waits for approval: ${interrupt.question || interrupt.tool}`),
      interrupt.reason === "unknown" && h("p", {}, "It was begun and its result was lost, so it may have happened."),
      h("p", { class: "dim" }, "Approving lets the call happen when the agent continues: in an open chat at once, else with the command that the answer shows."),
      h("pre", { class: "code", tabindex: 0, "aria-label": "Input of the call" }, inputText(interrupt)),
      h("div", { class: "actions" },
        may("approve") && button("Approve", decide("approve"), { class: "accent", "aria-keyshortcuts": "a" }),
        may("reject") && button("Reject\u2026", decide("reject"), { "aria-keyshortcuts": "x" }),
        may("edit") && !interrupt.input.truncated && button("Edit\u2026", decide("edit")),
        may("respond") && button("Respond\u2026", decide("respond"))));
  }
}

// inputText is the input of a call. A title that is its only argument, such as a shell command, is shown alone. Otherwise the user
// would approve arguments that the page hides, such as the content of a file whose path is the title.
function inputText({ title, input }) {
  try {
    const values = Object.values(JSON.parse(input.text));
    if (values.length === 1 && values[0] === title) return title;
  } catch { /* it is cut, or no JSON */ }
  return input.text + (input.truncated ? "\u2026" : "");
}
