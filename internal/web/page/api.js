// Requests to the HTTP API of the server that sent this page.

// ApiError is a refusal of the server, or a server that does not answer (kind "offline").
export class ApiError extends Error {
  constructor({ kind, detail, title, hint, status }) {
    super(detail || title || kind);
    this.kind = kind ?? "io";
    this.hint = hint ?? "";
    this.status = status ?? 0;
  }
}

export class Api {
  // token authorizes each request. onExpired is called when the server does not accept it.
  constructor(token, onExpired) {
    this.base = new URL("api/v1/", document.baseURI);
    this.token = token;
    this.onExpired = onExpired;
  }

  get(path, query, signal) {
    return this.#json(path, { query, signal });
  }

  post(path, body, headers) {
    return this.#json(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers } });
  }

  // move makes a previewed move. A repeated request with the same key moves once.
  move(preview, key, force = false) {
    return this.post("moves", { preview, ...(force && { force: true }) }, { "Idempotency-Key": key, "Segno-Actor": "page" });
  }

  // blob returns the bytes of a file, of at most `most` bytes.
  async blob(path, query, signal) {
    return (await this.fetch(path, { query, signal })).blob();
  }

  // fetch sends a request and returns the response if the server accepted it.
  async fetch(path, { query, headers, ...init } = {}) {
    const url = new URL(path, this.base);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
    }
    let response;
    try {
      response = await fetch(url, { ...init, headers: { Authorization: `Bearer ${this.token}`, ...headers } });
    } catch (err) {
      if (err.name === "AbortError") throw err;
      throw new ApiError({ kind: "offline", detail: "the server does not answer", hint: "run segno web again, and open the address that it prints" });
    }
    if (response.ok) return response;
    if (response.status === 401) this.onExpired();
    throw await problem(response);
  }

  async #json(path, init) {
    return (await this.fetch(path, init)).json();
  }
}

// problem reads the problem details of a refusal. A proxy's answer may have none.
async function problem(response) {
  let details = {};
  try {
    details = await response.json();
  } catch (err) {
    if (err.name === "AbortError") throw err;
    details = { detail: `the server answered ${response.status}` };
  }
  return new ApiError({ ...details, status: response.status });
}

// randomKey makes an idempotency key. It needs no secure context, unlike crypto.randomUUID, because the
// page may be at a plain-HTTP address that is not local.
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

const tokenKey = "segno-token";

// takeToken returns the token of the page's address and removes it from there, because addresses
// are kept in the browser's history. A reload finds the token in the tab's own storage.
export function takeToken() {
  const part = decodeURIComponent(location.hash.slice(1));
  if (part && !part.startsWith("/")) {
    const [token, ...route] = part.split("/");
    sessionStorage.setItem(tokenKey, token);
    history.replaceState(null, "", route.length ? `#/${route.join("/")}` : location.pathname);
  }
  return sessionStorage.getItem(tokenKey) ?? "";
}
