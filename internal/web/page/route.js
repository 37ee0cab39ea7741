// The thread and the checkpoint in the page's address, so that a reload and the back button keep them.

// readRoute returns {thread, checkpoint} of the address.
export function readRoute() {
  const [thread = "", checkpoint = ""] = location.hash.startsWith("#/") ? location.hash.slice(2).split("/").map(safeDecode) : [];
  return { thread, checkpoint };
}

// writeRoute changes the address. A change of the thread is a step of the back button.
export function writeRoute(thread, checkpoint) {
  const hash = `#/${encodeURIComponent(thread)}${checkpoint ? `/${encodeURIComponent(checkpoint)}` : ""}`;
  if (hash === location.hash) return;
  if (readRoute().thread && readRoute().thread !== thread) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

function safeDecode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
