// The lines of one file's diff, loaded in windows; and the pairs of lines that stand side by side.

const windowSize = 1000;

export class DiffLines {
  #lines = [];
  #loading = new Map(); // window → promise

  // query has path, and either from and to, or the preview of a move. first is the answer for the first window.
  constructor(api, query, signal) {
    Object.assign(this, { api, query, signal });
    this.info = null;
    this.pairs = []; // side by side: [index of the old line or -1, index of the new line or -1]
    this.paired = 0; // lines that are in pairs
  }

  async open() {
    await this.window(0);
    return this.info;
  }

  get total() {
    return this.info?.lines_total ?? 0;
  }

  get(index) {
    return this.#lines[index];
  }

  // window loads the window with a line, once.
  window(index) {
    const number = Math.floor(index / windowSize);
    if (!this.#loading.has(number)) this.#loading.set(number, this.#load(number * windowSize));
    return this.#loading.get(number);
  }

  async #load(offset) {
    const { preview, ...query } = this.query;
    const page = await this.api.get(preview ? `previews/${encodeURIComponent(preview)}/diff` : "diff", { ...query, offset, n: windowSize }, this.signal);
    this.info ??= page;
    for (let i = 0; i < (page.lines ?? []).length; i++) this.#lines[offset + i] = page.lines[i];
  }

  // pair makes pairs of the lines that are loaded from the beginning without a gap. A block of
  // deleted lines stands beside the added lines that follow it.
  pair() {
    while (this.paired < this.total && this.#lines[this.paired]) {
      let i = this.paired;
      const op = this.#lines[i][0];
      if (op !== "-" && op !== "+") {
        this.pairs.push([i, i]);
        this.paired++;
        continue;
      }
      const deleted = [], added = [];
      for (; this.#lines[i]?.[0] === "-"; i++) deleted.push(i);
      for (; this.#lines[i]?.[0] === "+"; i++) added.push(i);
      if (i < this.total && !this.#lines[i]) return; // the rest of this block is not loaded yet
      for (let k = 0; k < Math.max(deleted.length, added.length); k++) this.pairs.push([deleted[k] ?? -1, added[k] ?? -1]);
      this.paired = i;
    }
  }
}
