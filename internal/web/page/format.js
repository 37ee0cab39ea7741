// Writes numbers, times and counts as texts.

const minute = 60, hour = 60 * minute, day = 24 * hour;

// age is the time since a moment, in one unit.
export function age(time, now = Date.now()) {
  const s = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (s < minute) return `${s}s`;
  if (s < hour) return `${Math.floor(s / minute)}m`;
  if (s < day) return `${Math.floor(s / hour)}h`;
  return `${Math.floor(s / day)}d`;
}

// spokenAge is age in words, for names of elements.
export function spokenAge(time, now = Date.now()) {
  const text = age(time, now);
  const unit = { s: "second", m: "minute", h: "hour", d: "day" }[text.at(-1)];
  return `${plural(parseInt(text, 10), unit)} ago`;
}

export function moment(time) {
  const at = new Date(time);
  return Number.isNaN(at.valueOf()) ? "" : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function plural(n, noun) {
  return n === 1 ? `1 ${noun}` : `${n.toLocaleString("en")} ${noun}s`;
}

export function bytes(n) {
  if (n < 1024) return plural(n, "byte");
  const units = ["KiB", "MiB", "GiB"];
  let value = n / 1024, i = 0;
  while (value >= 1024 && i < units.length - 1) { value /= 1024; i++; }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[i]}`;
}

export function duration(ms) {
  if (!(ms > 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

// counts is the number of modified, added and deleted files, each with its word.
export function counts(files) {
  return [["modified", files?.modified], ["added", files?.added], ["deleted", files?.deleted]].filter(([, n]) => n > 0);
}

// dayOf is the day of a moment in the time zone of the reader.
export function dayOf(time) {
  return new Date(time).toDateString();
}

// dayName is the name of the day of a moment: "Today", "Yesterday", or the date.
export function dayName(time, now = new Date()) {
  const at = new Date(time), yesterday = new Date(now);
  yesterday.setDate(now.getDate() - 1);
  if (at.toDateString() === now.toDateString()) return "Today";
  if (at.toDateString() === yesterday.toDateString()) return "Yesterday";
  const year = at.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return at.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short", year });
}

// firstLine is the first line of a text that is not empty.
export function firstLine(text, most = 300) {
  const head = (text ?? "").slice(0, 4096).trimStart();
  const end = head.indexOf("\n");
  const line = end < 0 ? head : head.slice(0, end);
  return line.length > most ? `${line.slice(0, most)}\u2026` : line;
}

// pathEnd is a path without its beginning, because its end is what a reader looks for.
export function pathEnd(path) {
  const names = (path ?? "").split("/").filter(Boolean);
  return names.length > 3 ? `\u2026/${names.slice(-2).join("/")}` : path ?? "";
}

// baseName is the last name of a path.
export function baseName(path) {
  return (path ?? "").split("/").filter(Boolean).at(-1) ?? "";
}
