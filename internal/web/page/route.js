// The thread and the checkpoint in the page's address, or the experiment, so that a reload and the back button keep them.

const experiments = "#//experiments/"; // no thread has an empty id

// readRoute returns {thread, checkpoint, experiment} of the address.
export function readRoute() {
  if (location.hash.startsWith(experiments)) return { thread: "", checkpoint: "", experiment: safeDecode(location.hash.slice(experiments.length)) };
  const [thread = "", checkpoint = ""] = location.hash.startsWith("#/") ? location.hash.slice(2).split("/").map(safeDecode) : [];
  return { thread, checkpoint, experiment: "" };
}

// writeExperiment changes the address to that of an experiment.
export function writeExperiment(name) {
  const hash = experiments + encodeURIComponent(name);
  if (hash !== location.hash) history.pushState(null, "", hash);
}

// writeRoute changes the address. A change of the thread is a step of the back button.
export function writeRoute(thread, checkpoint) {
  const hash = `#/${encodeURIComponent(thread)}${checkpoint ? `/${encodeURIComponent(checkpoint)}` : ""}`;
  if (hash === location.hash) return;
  const now = readRoute();
  if (now.experiment || now.thread && now.thread !== thread) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

function safeDecode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
