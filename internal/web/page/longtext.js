// Shows a text that may be very long. Its beginning came with the turn; the rest is loaded and
// rendered in parts when the reader scrolls near the end of the rendered part.

import { fill, h, button } from "./dom.js";
import { bytes } from "./format.js";

const windowSize = 16 * 1024;

// longText returns an element for {text, bytes, truncated}. load(offset, n) returns the answer of
// the text endpoint, and render(text) the nodes of a part.
export function longText(value, { load, render, name }) {
  const body = h("div", { class: "long" }, render(value.text ?? ""));
  if (!value.truncated) return body;
  let offset = new TextEncoder().encode(value.text).length, rest = "", busy = false;
  const more = button(`Show more of ${bytes(value.bytes)}`, () => next(), { class: "more" });
  const next = async () => {
    if (busy) return;
    busy = true;
    try {
      const page = await load(offset, windowSize);
      const [whole, left] = splitAtParagraph(rest + page.text, !page.next);
      rest = left;
      offset = page.next || offset;
      more.before(h("div", { class: "part" }, render(whole)));
      if (!page.next) more.remove();
      else fill(more, `Show more: ${bytes(offset)} of ${bytes(page.bytes)} ${name}`);
    } catch (err) {
      near.disconnect();
      if (err.name !== "AbortError") fill(more, `${err.message}. Try again`);
      return;
    } finally {
      busy = false;
      near.unobserve(more);
      if (more.isConnected) near.observe(more); // reports again if the end is still in view
    }
  };
  const near = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && next());
  near.observe(more);
  body.append(more);
  return body;
}

// splitAtParagraph cuts a part after its last empty line, so that no block of Markdown is torn.
function splitAtParagraph(text, last) {
  const end = last ? text.length : text.lastIndexOf("\n\n");
  return end <= 0 ? [text, ""] : [text.slice(0, end), text.slice(end)];
}
