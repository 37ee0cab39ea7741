// LangGraph's own savers on the workload of saver.go: one thread, a step for each line of standard input, and in each step one
// message more. A step is what LangGraph's loop does: putWrites on the checkpoint before, then put. Prints one JSON object a
// configuration: the time of each step, of reading the head and of listing 100 checkpoints, in milliseconds, and the bytes.
//
// full   messages is an ordinary channel: every checkpoint has all of them
// delta  messages is a DeltaChannel: checkpoints have the write, and all of them every so many steps; the head is read with
//        getDeltaChannelHistory
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { DeltaSnapshot, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import pg from "pg";

const [work, url] = process.argv.slice(2);
const messages = [];
for await (const line of readline.createInterface({ input: process.stdin })) messages.push(JSON.parse(line));

function weigh(v) {
  if (v instanceof Uint8Array) return v.byteLength;
  if (typeof v === "string") return Buffer.byteLength(v);
  if (v && typeof v === "object") return Object.values(v).reduce((n, x) => n + weigh(x), 0);
  return 0;
}

async function memory() {
  const saver = new MemorySaver();
  return { saver, bytes: async () => weigh(saver.storage) + weigh(saver.writes), close: async () => {} };
}

async function sqlite(tag, synchronous) {
  const file = path.join(work, tag + ".db");
  const db = new Database(file);
  db.pragma("synchronous=" + synchronous);
  const saver = new SqliteSaver(db);
  await saver.getTuple({ configurable: { thread_id: "none" } }); // makes the tables
  const bytes = async () => (db.pragma("wal_checkpoint(TRUNCATE)"), fs.statSync(file).size);
  return { saver, bytes, close: async () => db.close() };
}

async function postgres(tag) {
  const schema = "lg_" + tag.replaceAll("-", "_");
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const saver = new PostgresSaver(pool, undefined, { schema });
  await saver.setup();
  const size = `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) n FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = $1 AND c.relkind = 'r'`;
  const bytes = async () => Number((await pool.query(size, [schema])).rows[0].n);
  return { saver, bytes, close: async () => (await pool.query(`DROP SCHEMA "${schema}" CASCADE`), await pool.end()) };
}

async function measure({ saver, bytes, close }, every, steps) {
  const out = { put: [], head: [], list: [] }, at = { thread_id: "t", checkpoint_ns: "" };
  let all = [], before, version, snapped = 0;
  const clock = async (into, f) => { const t = performance.now(), v = await f(); into.push(performance.now() - t); return v; };
  for (let i = 0; i < steps; i++) {
    all = [...all, messages[i]];
    version = saver.getNextVersion(version);
    const whole = !every || i === 0 || i - snapped >= every, values = {};
    if (whole) { values.messages = every ? new DeltaSnapshot(all) : all; snapped = i; }
    const checkpoint = { v: 4, id: uuid6(i), ts: new Date().toISOString(), channel_values: values,
      channel_versions: { messages: version, __start__: 1 },
      versions_seen: { __input__: {}, __start__: { __start__: 1 }, agent: { messages: Math.max(0, version - 1) } } };
    const parent = before ? { checkpoint_id: before.configurable.checkpoint_id } : {};
    before = await clock(out.put, async () => {
      if (before) await saver.putWrites(before, [["messages", [messages[i]]]], uuid6(i));
      return saver.put({ configurable: { ...at, ...parent } }, checkpoint, { source: "loop", step: i, parents: {} }, whole ? { messages: version } : {});
    });
  }
  for (let k = 0; k < 7; k++) {
    const found = await clock(out.head, async () => {
      const t = await saver.getTuple({ configurable: at });
      if (!every) return t.checkpoint.channel_values.messages;
      if (t.checkpoint.channel_values.messages) return t.checkpoint.channel_values.messages.value;
      const h = (await saver.getDeltaChannelHistory({ config: t.config, channels: ["messages"] })).messages;
      return [...(h.seed?.value ?? h.seed ?? []), ...h.writes.flatMap((w) => w[2])];
    });
    // A delta head has the write of its own step beside it, not in its history.
    if (found.length < steps - 1 || found[steps - 2].id !== messages[steps - 2].id) throw new Error(`${found.length} messages instead of ${steps}`);
  }
  for (let k = 0; k < 5 && !(out.list.at(-1) > 2000); k++) { // once is enough of what takes seconds
    const n = await clock(out.list, async () => { let n = 0; for await (const _ of saver.list({ configurable: at }, { limit: 100 })) n++; return n; });
    if (n !== Math.min(100, steps)) throw new Error(`${n} checkpoints listed`);
  }
  out.bytes = await bytes();
  await close();
  return out;
}

const engines = { memory, "sqlite NORMAL": (t) => sqlite(t, "NORMAL"), "sqlite FULL": (t) => sqlite(t, "FULL"), postgres };
const modes = { full: 0, "delta/50": 50, "delta/1000": 1000 };
let n = 0;
for (const [engine, open] of Object.entries(engines)) for (const [mode, every] of Object.entries(modes)) {
  await measure(await open(`warm-${n++}`), every, 10);
  console.log(JSON.stringify({ engine, mode, ...await measure(await open(`run-${n++}`), every, messages.length) }));
}
