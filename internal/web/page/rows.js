// The rows of one thread's timeline, loaded in windows. Rows are numbered from the oldest.

const windowSize = 60; // rows of one request
const most = 600; // rows that are kept

export class Rows {
  #rows = new Map();
  #pending = null; // the window that is being loaded
  #wanted = null; // the window to load next

  // onChange(first, last) is called after rows have arrived, or with no arguments after a change
  // of the whole timeline.
  constructor(api, thread, onChange, onError) {
    Object.assign(this, { api, thread, onChange, onError });
    this.total = 0;
    this.revision = null;
    this.open = null;
    this.head = "";
    this.view = { open: [], own: false, hidden: 0 }; // the folds that are open, and segno's own checkpoints
    this.stop = new AbortController();
  }

  close() {
    this.stop.abort();
  }

  get(index) {
    return this.#rows.get(index);
  }

  // find returns the index of a checkpoint among the rows that are loaded, or -1.
  find(checkpoint) {
    for (const [index, row] of this.#rows) if (row.id === checkpoint) return index;
    return -1;
  }

  // ensure loads the rows [first, last), unless they are there. While a window is loading, it only
  // notes the newest wish: during a fast scroll most windows are out of view before they arrive.
  ensure(first, last) {
    let from = Math.max(0, first), to = Math.min(this.total, last);
    while (from < to && this.#rows.has(from)) from++;
    while (to > from && this.#rows.has(to - 1)) to--;
    if (from >= to) return;
    const spare = Math.max(0, windowSize - (to - from)) >> 1;
    this.#wanted = [Math.max(0, from - spare), Math.min(this.total, to + spare)];
    this.#next();
  }

  // around loads the window around a checkpoint and returns its index, or -1.
  async around(checkpoint) {
    const loaded = this.find(checkpoint);
    if (loaded >= 0) return loaded;
    const page = await this.#get({ around: checkpoint, n: windowSize });
    this.#take(page);
    return this.find(checkpoint);
  }

  // refresh loads the newest rows and those at the positions [top, bottom) again, counted from the newest. The others are
  // dropped, because a move changes which rows are undone.
  async refresh(top, bottom) {
    const pages = [await this.#get({ n: windowSize })];
    const { from: loaded, total } = pages[0];
    const from = Math.max(0, total - bottom), to = Math.min(loaded, total - top);
    if (from < to) pages.push(await this.#get({ from, n: Math.min(200, to - from) }));
    this.#rows.clear();
    for (const page of pages.reverse()) this.#take(page, true);
    this.onChange();
  }

  // show loads the rows again with another view.
  show(view, top, bottom) {
    Object.assign(this.view, view);
    return this.refresh(top, bottom);
  }

  #get(query) {
    const view = { view: "line", open: this.view.open.join(","), own: this.view.own ? 1 : 0 };
    return this.api.get(`threads/${encodeURIComponent(this.thread)}/timeline`, { ...view, ...query }, this.stop.signal);
  }

  async #next() {
    if (this.#pending || !this.#wanted) return;
    const [from, to] = (this.#pending = this.#wanted);
    this.#wanted = null;
    try {
      this.#take(await this.#get({ from, n: Math.min(200, to - from) }));
    } catch (err) {
      if (err.name !== "AbortError") this.onError(err);
    } finally {
      this.#pending = null;
    }
    this.#next();
  }

  // take keeps the rows of a window.
  #take(page, quiet = false) {
    const opened = page.view.own !== this.view.own || page.view.open.join() !== this.view.open.join();
    if (opened) this.#rows.clear(); // the row that was asked for was folded, so the numbers of the others have changed
    this.view = page.view;
    const whole = opened || this.total !== page.total || this.revision !== page.revision;
    Object.assign(this, { total: page.total, revision: page.revision, open: page.open ?? null });
    for (const row of page.items) {
      this.#rows.set(row.index, row);
      if (row.head) this.head = row.id;
    }
    this.#evict(page.from);
    if (quiet) return;
    if (whole) this.onChange();
    else this.onChange(page.from, page.from + page.items.length);
  }

  // evict drops the rows farthest from an index, so that the heap does not grow with the scroll.
  #evict(near) {
    if (this.#rows.size <= most) return;
    const indices = [...this.#rows.keys()].sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
    for (const index of indices.slice(most)) this.#rows.delete(index);
  }
}
