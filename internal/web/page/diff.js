// Shows the diff of one file: unified or side by side, with changed words marked.

import { DiffLines } from "./difflines.js";
import { append, fill, h } from "./dom.js";
import { bytes, plural } from "./format.js";
import { languageOf, tokens } from "./syntax.js";
import { WindowList } from "./windowlist.js";

const lineHeight = 20; // px
const mostShown = 30; // lines of the view; longer diffs scroll
const modeKey = "segno-diff";

// showDiff fills a place with the diff of a file and returns a function that ends it.
export function showDiff(api, place, query) {
  const stop = new AbortController();
  const view = new DiffView(api, place, query, stop.signal);
  view.open().catch((err) => {
    if (err.name === "AbortError") return;
    fill(place, h("p", { class: "empty" }, err.message));
  });
  return () => {
    stop.abort();
    view.close();
  };
}

class DiffView {
  constructor(api, place, query, signal) {
    Object.assign(this, { api, place, query, signal });
    this.lines = new DiffLines(api, query, signal);
    this.language = languageOf(query.path);
    this.list = null;
    this.urls = [];
  }

  close() {
    this.list?.close();
    for (const url of this.urls) URL.revokeObjectURL(url);
  }

  async open() {
    fill(this.place, h("p", { class: "empty" }, "Loading\u2026"));
    const info = await this.lines.open();
    if (this.signal.aborted) return;
    if (info.kind === "text") this.#showText(info);
    else if (info.kind === "image" && !this.query.preview) fill(this.place, await this.#images(info));
    else fill(this.place, h("p", { class: "empty" }, describe(info)));
  }

  #showText(info) {
    if (info.lines_total === 0) {
      fill(this.place, h("p", { class: "empty" }, "The text is the same; only the mode or the type changed."));
      return;
    }
    const split = h("input", { type: "checkbox", checked: localStorage.getItem(modeKey) === "split", onchange: () => {
      localStorage.setItem(modeKey, split.checked ? "split" : "unified");
      this.#build(split.checked);
    } });
    this.frame = h("div", { class: "diff-frame" });
    fill(this.place,
      h("div", { class: "diff-bar" },
        h("span", { class: "added" }, `+${info.added ?? 0}`), " ", h("span", { class: "deleted" }, `\u2212${info.removed ?? 0}`),
        h("span", { class: "dim" }, ` ${plural(info.lines_total, "line")}`),
        h("label", { class: "check" }, split, "Side by side")),
      this.frame);
    this.#build(split.checked);
    // An image that is also a text, such as SVG.
    if (!this.query.preview && (info.before?.media || info.after?.media)) this.#images(info).then((images) => this.place.append(images)).catch(() => {});
  }

  #build(split) {
    this.list?.close();
    this.split = split;
    const body = h("div", { class: "diff-body" });
    const scroller = h("div", { class: `diff-scroll${split ? " split" : ""}`, tabindex: 0, role: "region", "aria-label": `Diff of ${this.query.path}` }, body);
    fill(this.frame, scroller);
    this.list = new WindowList({ scroller, body, rowHeight: lineHeight,
      render: (index) => (split ? this.#renderPair(index) : this.#renderLine(index)),
      onRange: (first, last) => this.#load(first, last) });
    this.#grow();
  }

  // grow sets the height to the rows that are known. Side by side, they become known with the lines.
  #grow() {
    if (this.split) this.lines.pair();
    const count = this.split ? this.lines.pairs.length + (this.lines.paired < this.lines.total ? 1 : 0) : this.lines.total;
    this.list.scroller.style.height = `${Math.min(count, mostShown) * lineHeight + 14}px`;
    this.list.setCount(count);
  }

  async #load(first, last) {
    const wanted = this.split ? (last > this.lines.pairs.length ? [this.lines.paired] : []) : [first, last - 1];
    for (const index of wanted) {
      if (index < 0 || index >= this.lines.total || this.lines.get(index)) continue;
      const before = this.split;
      try {
        await this.lines.window(index);
      } catch (err) {
        if (err.name !== "AbortError") throw err;
        return;
      }
      if (this.signal.aborted || before !== this.split) return;
      this.#grow();
      this.list.invalidate();
    }
  }

  #renderLine(index) {
    const line = this.lines.get(index);
    if (!line) return h("div", { class: "line" });
    const [op, before, after] = line;
    if (op === "@") return h("div", { class: "line hunk" }, h("span", { class: "text" }, line[3]));
    return h("div", { class: `line ${className(op)}` },
      h("span", { class: "number" }, before || ""), h("span", { class: "number" }, after || ""),
      h("span", { class: "sign" }, op === "+" || op === "-" ? op : ""), this.#text(line));
  }

  #renderPair(index) {
    const pair = this.lines.pairs[index];
    if (!pair) return h("div", { class: "line" });
    const [left, right] = pair.map((i) => this.lines.get(i));
    if (left?.[0] === "@") return h("div", { class: "line hunk" }, h("span", { class: "text" }, left[3]));
    return h("div", { class: "line pair" }, this.#side(left, 1), this.#side(right, 2));
  }

  #side(line, column) {
    if (!line) return h("div", { class: "side none" });
    return h("div", { class: `side ${className(line[0])}` }, h("span", { class: "number" }, line[column] || ""), this.#text(line));
  }

  // text is a line's text with colours and marks of changed words.
  #text(line) {
    const [, , , text, ranges, cut] = line;
    const node = h("span", { class: "text" });
    append(node, paint(text, tokens(text, this.language), ranges ?? []));
    if (cut) node.append(h("span", { class: "dim" }, ` \u2026 the line has ${bytes(cut)}`));
    return node;
  }

  // images returns both sides of an image. An img element runs no script of an SVG.
  async #images(info) {
    const sides = [[this.query.from, info.before, "Before"], [this.query.to, info.after, "After"]];
    const figures = await Promise.all(sides.filter(([, file]) => file).map(async ([checkpoint, file, caption]) => {
      const blob = await this.api.blob("file", { checkpoint, path: this.query.path, path_bytes: this.query.path_bytes }, this.signal);
      const src = URL.createObjectURL(blob);
      this.urls.push(src);
      return h("figure", {}, h("img", { src, alt: `${this.query.path}, ${caption.toLowerCase()}` }), h("figcaption", {}, `${caption}, ${bytes(file.bytes)}`));
    }));
    return h("div", { class: "images" }, figures);
  }
}

function className(op) {
  return op === "+" ? "added" : op === "-" ? "deleted" : "same";
}

function describe(info) {
  const size = (file) => (file ? bytes(file.bytes) : "nothing");
  const names = { binary: "A binary file", link: "A symbolic link", directory: "A directory", large: "A file that is too large to compare" };
  return `${names[info.kind] ?? "A file"}: ${size(info.before)} before, ${size(info.after)} after.`;
}

// paint returns the parts of a text. Colours and marks are ranges that may cross each other.
export function paint(text, colours, marks) {
  if (!colours.length && !marks.length) return [text];
  const cuts = new Set([0, text.length]);
  for (const [start, end] of [...colours, ...marks]) cuts.add(Math.min(start, text.length)).add(Math.min(end, text.length));
  const points = [...cuts].sort((a, b) => a - b), out = [];
  let colour = 0, mark = 0;
  for (let i = 0; i + 1 < points.length; i++) {
    const [start, end] = [points[i], points[i + 1]];
    while (colour < colours.length && colours[colour][1] <= start) colour++;
    while (mark < marks.length && marks[mark][1] <= start) mark++;
    const names = [];
    if (colours[colour]?.[0] <= start) names.push(`code-${colours[colour][2]}`);
    if (marks[mark]?.[0] <= start) names.push("word");
    const part = text.slice(start, end);
    out.push(names.length ? h("span", { class: names.join(" ") }, part) : part);
  }
  return out;
}
