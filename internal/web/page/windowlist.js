// A list of rows of equal height that has elements only for the rows in view.

const overscan = 6; // rows above and below the view

export class WindowList {
  #nodes = new Map(); // index → element
  #frame = 0;

  // scroller is the element that scrolls, and body the element in it that holds the rows.
  // render(index) makes the element of a row, and signature(index) a text of all that it shows. onRange(first, last) is called after the rows in
  // view have changed; last is exclusive.
  constructor({ scroller, body, rowHeight, render, signature, onRange }) {
    Object.assign(this, { scroller, body, rowHeight, render, onRange });
    this.signature = signature ?? (() => ({})); // without one, each row counts as changed
    this.count = 0;
    scroller.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(scroller);
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  setCount(count) {
    this.count = count;
    this.body.style.height = `${count * this.rowHeight}px`;
    this.schedule();
  }

  // invalidate renders the rows [first, last) again, if they are in view and their signature has
  // changed. Elements that stay keep the focus, and a click that has begun on one.
  invalidate(first = 0, last = this.count) {
    for (const [index, node] of this.#nodes) {
      if (index < first || index >= last) continue;
      const signature = this.signature(index);
      if (signature === node.signature) continue;
      const next = this.#place(index);
      node.replaceWith(next);
      this.#nodes.set(index, next);
    }
  }

  schedule() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.draw();
    });
  }

  range() {
    const top = this.scroller.scrollTop, height = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - overscan);
    return [first, Math.min(this.count, Math.ceil((top + height) / this.rowHeight) + overscan)];
  }

  draw() {
    const [first, last] = this.range();
    for (const [index, node] of this.#nodes) {
      if (index >= first && index < last) continue;
      node.remove();
      this.#nodes.delete(index);
    }
    const added = document.createDocumentFragment();
    for (let index = first; index < last; index++) {
      if (this.#nodes.has(index)) continue;
      const node = this.#place(index);
      this.#nodes.set(index, node);
      added.append(node);
    }
    this.body.append(added);
    this.onRange?.(first, last);
  }

  node(index) {
    return this.#nodes.get(index) ?? null;
  }

  // show scrolls the least that brings a row into view; with center it scrolls the row to the middle.
  show(index, center = false) {
    const top = index * this.rowHeight, height = this.scroller.clientHeight;
    if (center) this.scroller.scrollTop = top - (height - this.rowHeight) / 2;
    else if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > this.scroller.scrollTop + height) this.scroller.scrollTop = top + this.rowHeight - height;
    this.draw();
  }

  #place(index) {
    const node = this.render(index);
    node.signature = this.signature(index);
    node.style.transform = `translateY(${index * this.rowHeight}px)`;
    return node;
  }
}
