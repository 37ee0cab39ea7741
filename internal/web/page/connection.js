// Tells the user whether the page is live.

import { button, fill, h } from "./dom.js";

const names = { connecting: "connecting", live: "live", offline: "offline", expired: "expired" };

// bindConnection shows the state of the connection, and a banner with what to do while it is lost.
export function bindConnection(state, { place, banner, onRetry }) {
  let lost = false;
  const draw = (connection) => {
    fill(place, h("span", { class: `dot ${connection}`, "aria-hidden": "true" }), names[connection] ?? connection);
    banner.hidden = connection === "live" || connection === "connecting";
    if (connection === "offline") {
      lost = true;
      fill(banner, "The server does not answer. The page tries again; what you see may be out of date. ", button("Try now", onRetry));
    } else if (connection === "expired") {
      fill(banner, "This page's token is no longer valid: the server was started again. Open the address that the new ", h("code", {}, "segno web"), " printed.", tokenField());
    } else if (connection === "live" && lost) {
      lost = false;
      fill(banner);
    }
  };
  state.on("connection", draw);
  draw(state.connection);
}

// tokenField takes the new address, because a phone or a forwarded port may not follow a link.
export function tokenField() {
  const input = h("input", { type: "text", "aria-label": "Address with the token", placeholder: "http://127.0.0.1:\u2026/#\u2026", autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "token", onsubmit: (event) => {
    event.preventDefault();
    const token = input.value.trim().split("#").pop();
    if (!token) return;
    location.hash = token;
    location.reload();
  } }, input, h("button", { type: "submit" }, "Open"));
}
