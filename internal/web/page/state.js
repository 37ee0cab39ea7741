// What the page shows at present. Modules read fields, change them with set, and subscribe to them.

export class State {
  #listeners = new Map();

  constructor() {
    this.store = null; // the answer of GET /store
    this.threads = []; // the threads that are loaded
    this.experiments = []; // those that are loaded
    this.experiment = ""; // the name of the one that is shown in place of the timeline, or ""
    this.thread = ""; // the id of the thread in the timeline
    this.selected = ""; // the checkpoint in the right pane
    this.from = ""; // the checkpoint that a comparison begins at, or ""
    this.connection = "connecting"; // connecting, live, offline, expired
  }

  // set changes fields and then calls the listeners of those that changed.
  set(fields) {
    const changed = Object.keys(fields).filter((name) => this[name] !== fields[name]);
    Object.assign(this, fields);
    for (const name of changed) {
      for (const listener of this.#listeners.get(name) ?? []) listener(this[name]);
    }
  }

  on(name, listener) {
    if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
    this.#listeners.get(name).add(listener);
  }

  get currentThread() {
    return this.threads.find((t) => t.id === this.thread) ?? null;
  }
}
