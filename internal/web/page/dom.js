// Builds the page's elements. The page never parses markup: each text becomes a text node, so
// nothing in a store can become an element, an attribute or a script.

// hidden matches characters that change how text around them is shown: control characters except
// tab and newline, and the controls that reorder text.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

// visible replaces characters that a terminal or a browser would act on by a mark for them.
export function visible(text) {
  return text.replace(hidden, (c) => {
    const code = c.charCodeAt(0);
    if (code === 0x0d) return "";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

// h makes an element. A property that begins with "on" is a listener, a property that is false,
// null or undefined is left out, and all others are attributes. Strings become visible text.
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

// append adds children to a node: elements, texts, and lists of them. It leaves out false and null.
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === false || child === null || child === undefined || child === "") continue;
    node.append(child instanceof Node ? child : visible(String(child)));
  }
  return node;
}

// fill replaces the children of a node.
export function fill(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// button makes a button; label is its accessible name if its text does not suffice.
export function button(text, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, text);
}

// svg makes an element of an SVG image.
export function svg(tag, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props ?? {})) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}
