// Follows the server's events, and connects again when the connection ends.

import { ApiError } from "./api.js";

const firstWait = 500, longestWait = 8000; // ms between attempts
const silence = 45000; // ms without a byte after which the connection counts as lost

export class Live {
  #stop = null;
  #timer = 0;
  #wait = firstWait;

  // onEvent(name, data) gets each event. onState is called with live, offline or expired.
  constructor(api, onEvent, onState) {
    this.api = api;
    this.onEvent = onEvent;
    this.onState = onState;
    addEventListener("online", () => this.retry());
  }

  // retry connects now.
  retry() {
    clearTimeout(this.#timer);
    this.#stop?.abort();
    this.#wait = firstWait;
    this.#connect();
  }

  async #connect() {
    const stop = (this.#stop = new AbortController());
    let watchdog = 0;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), silence);
    };
    try {
      alive();
      const response = await this.api.fetch("events", { signal: stop.signal });
      this.#wait = firstWait;
      this.onState("live");
      await readEvents(response.body, this.onEvent, alive);
    } catch (err) {
      if (err instanceof ApiError && err.status === 401) {
        this.onState("expired");
        return;
      }
    } finally {
      clearTimeout(watchdog);
    }
    if (this.#stop !== stop) return; // retry has begun another connection
    this.onState("offline");
    this.#timer = setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(longestWait, this.#wait * 2);
  }
}

// readEvents reads a stream of server-sent events to its end. The browser's EventSource cannot
// send the token in a header.
async function readEvents(body, onEvent, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) dispatch(block, onEvent);
  }
}

function dispatch(block, onEvent) {
  let name = "message", data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
  }
  if (data) onEvent(name, JSON.parse(data));
}
