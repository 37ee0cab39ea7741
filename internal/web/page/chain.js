// The generations of one experiment: a drawing of the outcomes, and a table with a row for each attempt.

import { button, fill, h } from "./dom.js";
import { duration, moment, plural } from "./format.js";
import { isActive, progress } from "./experiments.js";

const pageSize = 50;
const interval = 3000; // ms between two readings of an experiment that runs

export class ChainPane {
  #name = "";
  #attempts = 0; // that are shown
  #reading = null; // the AbortController of the reading in progress
  #image = ""; // the address of the drawing
  #timer = 0;

  constructor(place, { api, state, onOpen, onError }) {
    Object.assign(this, { place, api, state, onOpen, onError });
    this.head = h("header", { class: "pane-head" });
    this.drawing = h("figure", { class: "outcomes", hidden: true });
    this.table = h("div", { class: "chain-table" });
    this.more = button("Show earlier attempts", () => this.#read(this.#attempts + pageSize), { class: "more", hidden: true });
    fill(place, this.head, h("div", { class: "chain-body" }, this.drawing, this.table, this.more));
  }

  // show shows an experiment, or none if its name is "".
  async show(name) {
    if (name === this.#name) return this.refresh();
    this.close();
    this.#name = name;
    this.#attempts = pageSize;
    if (name) await this.#read(pageSize);
  }

  close() {
    clearTimeout(this.#timer);
    this.#reading?.abort();
    this.#name = "";
    this.chain = null;
    this.#draw(null);
    fill(this.head);
    fill(this.table);
    this.more.hidden = true;
  }

  refresh() {
    return this.#name ? this.#read(this.#attempts) : undefined;
  }

  // #read reads the newest attempts in windows, and the drawing.
  async #read(n) {
    clearTimeout(this.#timer);
    this.#reading?.abort();
    const { signal } = (this.#reading = new AbortController());
    const path = `experiments/${encodeURIComponent(this.#name)}`;
    try {
      const drawing = this.api.blob(`${path}/outcomes.svg`, {}, signal);
      drawing.catch(() => {}); // its error is that of the chain, unless the chain has none
      const chain = await this.api.get(path, { limit: pageSize }, signal);
      while (chain.next && chain.attempts.length < n) {
        const more = await this.api.get(path, { limit: pageSize, cursor: chain.next }, signal);
        chain.attempts.push(...more.attempts);
        chain.next = more.next;
      }
      this.#attempts = Math.max(n, pageSize);
      this.#show(chain);
      this.#draw(chain.outcomes.length > 0 ? await drawing : null);
      if (isActive(chain)) this.#timer = setTimeout(() => this.refresh(), interval);
    } catch (err) {
      if (signal.aborted) return;
      if (!this.chain) fill(this.head, h("h2", {}, this.#name), h("p", { class: "notice bad" }, err.message));
      else this.onError(err);
    }
  }

  // #draw shows a drawing, or none if it is null. The same element shows the next one, so that the page does not flicker.
  #draw(blob) {
    const before = this.#image;
    this.#image = blob ? URL.createObjectURL(blob) : "";
    this.drawing.hidden = !blob;
    const image = this.drawing.querySelector("img");
    if (!blob) fill(this.drawing);
    else if (image) image.src = this.#image;
    else fill(this.drawing, h("img", { src: this.#image, alt: `The outcomes of ${this.#name} over its generations. The table below has the numbers.` }));
    if (before) URL.revokeObjectURL(before);
  }

  #show(chain) {
    this.chain = chain;
    const running = isActive(chain);
    fill(this.head,
      h("h2", {}, chain.name, " ", chain.state && h("span", { class: `tag state ${running ? "running" : ""}` }, running && h("span", { class: "dot running", "aria-hidden": "true" }), chain.state)),
      h("p", { class: "dim" }, [progress(chain), `${seconds(chain.sim_seconds)} in the world`, chain.agents.join(", "),
        chain.why_not_reproducible && `not reproducible: ${chain.why_not_reproducible}`].filter(Boolean).join(" \u00b7 ")),
      chain.damage && h("p", { class: "notice bad" }, chain.damage),
      chain.error && h("p", { class: "notice bad" }, chain.error),
      chain.checkpoint_failures > 0 && h("p", { class: "notice warn" }, `${plural(chain.checkpoint_failures, "checkpoint")} failed`),
      chain.files_omitted.length > 0 && h("p", { class: "notice warn" }, `The newest archive is without ${chain.files_omitted.join(", ")}, because of a secret.`));
    const focused = this.table.contains(document.activeElement) ? document.activeElement.dataset.key : "";
    if (chain.attempts.length === 0) fill(this.table, h("p", { class: "empty" }, "No attempt is over yet."));
    else fill(this.table, this.#rows(chain));
    if (focused) this.table.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.more.hidden = !chain.next;
  }

  #rows(chain) {
    const tokens = chain.attempts.some((a) => a.agents.some((x) => x.tokens_in !== undefined || x.tokens_out !== undefined));
    const names = ["generation", "status", "ticks", "in the world", "took", "checkpoints", tokens && "tokens in, out", ...chain.outcomes].filter(Boolean);
    const left = new Set(["generation", "status"]);
    return h("table", {},
      h("caption", { class: "dim" }, `${plural(chain.total, "attempt")}, the newest first`),
      h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: left.has(name) ? "" : "number" }, name)))),
      chain.attempts.map((a) => h("tbody", { class: `attempt ${a.status}` },
        h("tr", {},
          h("th", { scope: "row" }, a.generation, " ", h("span", { class: "dim" }, a.run_id)),
          h("td", {}, h("span", { class: `tag ${a.status === "completed" ? "accent" : a.status === "failed" ? "warn" : ""}` }, a.status)),
          [a.ticks, seconds(a.sim_seconds)].map(cell),
          h("td", { class: "number", title: `${moment(a.start_utc)} to ${moment(a.end_utc)}` }, duration(a.duration_seconds * 1000)),
          cell(a.checkpoints), tokens && cell(sumOfTokens(a)),
          chain.outcomes.map((name) => cell(a.outcomes[name] ?? ""))),
        h("tr", { class: "details" }, h("td", { colspan: names.length }, h("div", {}, this.#details(a)))))));
  }

  // #details are where an attempt came from and the links to what it left.
  #details(a) {
    const origins = new Set(a.agents.map((x) => originOf(x.template_in)));
    return [
      h("span", { class: "dim" }, "began with ", [...origins].join(", ")),
      a.agents.map((x) => (x.thread
        ? button(x.name, () => this.onOpen(x.thread, x.checkpoint), { class: "link agent", title: `${x.name}: open its timeline at the newest archive`, "data-key": `${a.run_id}/${x.name}` })
        : h("span", { class: "agent dim", title: "the store of this page does not have its checkpoints" }, x.name))),
      a.archives.map((x) => [
        button(x.file, () => this.#download(a, x), { class: "link archive", title: `download ${x.path}`, "data-key": `${a.run_id}/${x.file}` }),
        x.error && h("span", { class: "tag warn", title: x.error }, "damaged"),
        x.base && button(`delta of ${x.base}`, () => this.#download(a, { file: x.base }), { class: "link archive", title: "download it too, into the same directory", "data-key": `${a.run_id}/${x.file}/base` }),
        x.files_omitted + x.sessions_omitted > 0 && h("span", { class: "tag warn", title: "what had a secret was left out" }, "incomplete")]),
    ];
  }

  async #download(a, archive) {
    try {
      const blob = await this.api.blob(`experiments/${encodeURIComponent(this.#name)}/archive`, { run_id: a.run_id, file: archive.file });
      const link = h("a", { href: URL.createObjectURL(blob), download: archive.file });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser reads it after the click
    } catch (err) {
      this.onError(err);
    }
  }
}

const cell = (value) => h("td", { class: "number" }, typeof value === "number" ? number(value) : value);

function number(n) {
  const size = Math.abs(n);
  if (size >= 1e12 || (size > 0 && size < 1e-3)) return n.toExponential(3);
  return n.toLocaleString("en", { maximumFractionDigits: 3 });
}

// seconds writes a time in a world, which may be days.
function seconds(n) {
  if (n < 60) return `${number(n)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const parts = [];
  let rest = Math.round(n);
  for (const [unit, size] of units) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ");
}

function sumOfTokens(a) {
  const sum = (name) => a.agents.reduce((n, x) => n + (x[name] ?? 0), 0).toLocaleString("en");
  return `${sum("tokens_in")}, ${sum("tokens_out")}`;
}

// originOf describes what a workspace began with.
function originOf(template) {
  if (!template) return "empty workspaces";
  if (template.startsWith("checkpoint:")) return `checkpoint ${template.split("/").at(-1)}`;
  const attempt = /\/attempts\/([^/]+)\//.exec(template);
  return attempt ? `what ${attempt[1]} left` : template;
}
