// Turns Markdown into elements. It builds nodes and never parses HTML: tags in an answer are shown
// as text. Each line is read once, so the time grows with the length of the text.

import { h } from "./dom.js";

const longLine = 20000; // characters; a longer line is shown without inline marks

// markdown returns the elements of a text.
export function markdown(text) {
  return blocks(text.split("\n"), 0);
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const rule = /^ {0,3}(?:-\s*){3,}$|^ {0,3}(?:\*\s*){3,}$|^ {0,3}(?:_\s*){3,}$/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const quote = /^ {0,3}>\s?(.*)$/;
const tableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;
const mostDepth = 8; // of quotes and lists inside each other

function short(line, pattern) {
  return line.length <= longLine ? pattern.exec(line) : null;
}

function blocks(lines, depth) {
  const out = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    if (line.trim() === "") { i++; continue; }
    const [node, next] = codeBlock(lines, i) ?? titleOrRule(line, i) ?? table(lines, i) ??
      (depth < mostDepth ? quoted(lines, i, depth) ?? list(lines, i, depth) : null) ?? paragraph(lines, i);
    out.push(node);
    i = next;
  }
  return out;
}

function codeBlock(lines, i) {
  const open = short(lines[i], fence);
  if (!open) return null;
  const body = [];
  for (i++; i < lines.length && !lines[i].trimStart().startsWith(open[1]); i++) body.push(lines[i]);
  return [h("pre", { class: "code", "data-language": open[2] || null, tabindex: 0 }, h("code", {}, body.join("\n"))), i + 1];
}

function titleOrRule(line, i) {
  const title = short(line, heading);
  // The page's own headings are h1 to h3, so those of an answer begin below them.
  if (title) return [h(`h${Math.min(6, title[1].length + 3)}`, {}, inline(title[2])), i + 1];
  return short(line, rule) ? [h("hr"), i + 1] : null;
}

function quoted(lines, i, depth) {
  const inner = [];
  for (let m; i < lines.length && (m = short(lines[i], quote)); i++) inner.push(m[1]);
  return inner.length ? [h("blockquote", {}, blocks(inner, depth + 1)), i] : null;
}

// list reads items of the same indentation. Deeper lines belong to the item above them.
function list(lines, i, depth) {
  const first = short(lines[i], item);
  if (!first) return null;
  const indent = first[1].length, ordered = /\d/.test(first[2]), items = [];
  while (i < lines.length) {
    const m = short(lines[i], item);
    if (!m || m[1].length !== indent || /\d/.test(m[2]) !== ordered) break;
    const inner = [m[3]];
    for (i++; i < lines.length && belongs(lines, i, indent); i++) inner.push(lines[i].slice(Math.min(indent + 2, lines[i].search(/\S|$/))));
    items.push(h("li", {}, itemBody(inner, depth)));
  }
  return [h(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : {}, items), i];
}

function belongs(lines, i, indent) {
  if (lines[i].trim() === "") return i + 1 < lines.length && lines[i + 1].search(/\S|$/) > indent && lines[i + 1].trim() !== "";
  return lines[i].search(/\S|$/) > indent;
}

// itemBody is the content of a list's item; a single paragraph needs no element around it.
function itemBody(lines, depth) {
  const nodes = blocks(lines, depth + 1);
  return nodes[0]?.tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function table(lines, i) {
  if (i + 1 >= lines.length || !lines[i].includes("|") || !short(lines[i + 1], tableRule)) return null;
  const head = h("tr", {}, cells(lines[i]).map((c) => h("th", { scope: "col" }, inline(c))));
  const body = [];
  for (i += 2; i < lines.length && lines[i].includes("|") && lines[i].trim() !== ""; i++) {
    body.push(h("tr", {}, cells(lines[i]).map((c) => h("td", {}, inline(c)))));
  }
  return [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))), i];
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").slice(0, 50).map((c) => c.trim());
}

function paragraph(lines, i) {
  const body = [lines[i]];
  for (i++; i < lines.length && lines[i].trim() !== "" && !startsBlock(lines[i]); i++) body.push(lines[i]);
  return [h("p", {}, inline(body.join("\n"))), i];
}

function startsBlock(line) {
  return [fence, heading, quote, item].some((pattern) => short(line, pattern));
}

// The inline marks are tried at each position that may begin one. Their lengths are bounded, so that
// a text of many open marks takes no quadratic time.
const begins = /[`*_~[!h]/;
const code = /(`{1,8})(?!`)([^\n]{0,1000}?[^`])\1(?!`)/y;
const strong = /(\*\*|__)(?=\S)([^\n]{1,2000}?\S)\1/y;
const emphasis = /([*_])(?=[^\s*_])([^\n*_]{1,2000}?[^\s*_])\1(?![\w*])/y;
const struck = /~~(?=\S)([^\n]{1,2000}?\S)~~/y;
const link = /!?\[([^\]\n]{0,1000})\]\(\s*<?((?:[^\s()<>]|\([^\s()<>]{0,500}\)){1,2000})>?(?:\s+"[^"\n]{0,500}")?\s*\)/y;
const address = /https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]}]/y;

function at(pattern, text, index) {
  pattern.lastIndex = index;
  return pattern.exec(text);
}

// inline returns the nodes of a text inside a block.
function inline(text, depth = 0) {
  if (text.length > longLine || depth > mostDepth) return [text];
  const out = [];
  let from = 0;
  for (let index = 0; index < text.length; index++) {
    if (!begins.test(text[index])) continue;
    const word = index > 0 && /\w/.test(text[index - 1]);
    let node = null, m;
    if ((m = at(code, text, index))) node = h("code", {}, m[2].trim());
    else if ((m = at(strong, text, index))) node = h("strong", {}, inline(m[2], depth + 1));
    else if ((m = at(struck, text, index))) node = h("del", {}, inline(m[1], depth + 1));
    else if (!(word && text[index] === "_") && (m = at(emphasis, text, index))) node = h("em", {}, inline(m[2], depth + 1));
    else if ((m = at(link, text, index))) node = reference(m[1], m[2]);
    else if (!word && (m = at(address, text, index))) node = reference(m[0], m[0]);
    if (!node) continue;
    out.push(text.slice(from, index), node);
    from = index + m[0].length;
    index = from - 1;
  }
  out.push(text.slice(from));
  return out;
}

// reference is a link if its address is one of the web or of mail. Any other address, and an
// address that hides a different one, is shown beside the text.
export function reference(text, target) {
  let url = null;
  try {
    url = new URL(target);
  } catch { /* a path in a repository, which this page cannot open */ }
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) {
    return h("span", {}, text || target, text && text !== target ? h("span", { class: "dim" }, ` (${target})`) : "");
  }
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer", title: url.href }, text || target);
}
