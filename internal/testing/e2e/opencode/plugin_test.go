package opencode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// sendEvents loads a plugin and sends it the events of a turn, as OpenCode 1 does and then as OpenCode 2
// does. It prints each error that the plugin throws.
const sendEvents = loadPlugin2 + `
const report = (name) => (e) => console.log(name + ": " + e)
for (const name of ["uncaughtException", "unhandledRejection"]) process.on(name, report(name))
const { default: segno } = await import(process.argv[2])
const hooks = await segno.server({ client: { tui: { showToast: async () => {} } }, directory: process.argv[3] })
const send = (name, ...args) => hooks[name](...args).catch(report(name))
const event = (type, properties) => send("event", { event: { type, properties } })
await event("session.created", { info: { id: "s" } })
await send("chat.message", { sessionID: "s" }, { message: { id: "m" }, parts: [] })
await send("tool.execute.before", { sessionID: "s", tool: "bash", callID: "c" }, { args: {} })
await send("tool.execute.after", { sessionID: "s", tool: "bash", callID: "c" }, { output: "", metadata: {} })
for (const type of ["message.updated", "message.part.updated", "session.error", "unknown"]) await event(type, {})
await event("session.idle", { sessionID: "s" })
const second = await load(segno, process.argv[3])
await turn(second, { session: "s2", message: "m2", prompt: "p", command: "true" }).catch(report("version 2"))
for (const type of ["session.text.ended", "session.execution.interrupted", "unknown"]) await second.emit({ type })
await new Promise(setImmediate) // an unhandled rejection is reported then
console.log("end")
process.exit() // else the timeouts of processes that did not start keep node running
`

// loadPlugin2 has functions that do what OpenCode 2 does with a plugin: load calls setup with a context, and turn calls
// the hooks and yields the events of a turn with one shell command. Their shapes are those of
// https://opencode.ai/v2/docs/build/plugins; no version 2 can be installed for the tests.
const loadPlugin2 = `
import { spawnSync } from "node:child_process"
const load = async (plugin, directory) => {
  if (typeof plugin?.id !== "string" || typeof plugin.setup !== "function") throw new Error("the plugin has no id and setup")
  const hooks = {}
  const domain = (name) => ({ hook: async (event, run) => (hooks[name + "." + event] = run) })
  const events = []
  let wake = () => {}
  const subscribe = async function* () {
    for (;;) {
      while (events.length > 0) {
        const { event, done } = events.shift()
        yield event
        done() // the plugin asks for the next event
      }
      await new Promise((resolve) => (wake = resolve))
    }
  }
  await plugin.setup({ location: { directory }, session: domain("session"), tool: domain("tool"), event: { subscribe } })
  // emit returns when the plugin has handled the event.
  const emit = (event) => new Promise((done) => { events.push({ event, done }); wake() })
  return { hooks, emit, directory }
}
const turn = async ({ hooks, emit, directory }, { session, message, prompt, command, isNew = true }) => {
  if (isNew) await emit({ type: "session.created", data: { sessionID: session } })
  await hooks["session.prompt"]({ sessionID: session, messageID: message, prompt: { text: prompt } })
  const context = { sessionID: session, system: [], messages: [], tools: {} }
  await hooks["session.context"](context)
  const call = { tool: "shell", sessionID: session, agent: "build", id: "call_" + message, input: { command } }
  await hooks["tool.execute.before"](call)
  const { status: exit, stdout } = spawnSync("sh", ["-c", command], { cwd: directory })
  await hooks["tool.execute.after"]({ ...call, status: "completed", result: { output: { text: String(stdout) }, metadata: { exit } } })
  await emit({ type: "session.text.ended", data: { sessionID: session, text: "done" } })
  await emit({ type: "session.execution.succeeded", data: { sessionID: session } })
  return context.system.map((part) => part.text).join("\n")
}
`

// TestPluginOfVersion2 runs two turns as OpenCode 2 does and undoes the second one. The same plugin file supports both
// versions. At the third turn, the model receives a note about the undo.
func TestPluginOfVersion2(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	plugin := filepath.Join(agent.OpenCodeConfig(), "plugins", "segno.js")
	script := filepath.Join(t.TempDir(), "turn.mjs")
	text := loadPlugin2 + `
const { default: segno } = await import(process.argv[2])
const [message, command] = process.argv.slice(4)
console.log(await turn(await load(segno, process.argv[3]), { session: "ses_two", message, prompt: message, command, isNew: message === "alpha" }))
process.exit()
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(message, command string) string {
		return runNode(s, agent, script, plugin, agent.Project, message, command)
	}
	run("alpha", "echo 1 > a.txt")
	first := s.Tree()
	run("beta", "rm a.txt; echo 2 > b.txt")
	turns := s.Turns()
	if got, want := e2erig.Prompts(turns), []string{"alpha", "beta"}; !slices.Equal(got, want) {
		s.Fatalf("turns %q, want %q", got, want)
	}
	for i, c := range turns {
		if c.Turn != i+1 || c.Agent != "opencode" || c.Session != "ses_two" || c.Interrupted || c.Thread != turns[0].Thread || c.Shell != 1 {
			s.Errorf("turn %d is %+v", i+1, c)
		}
	}
	s.Segno("undo", "-y")
	if diff := cmp.Diff(first, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
	if said := run("gamma", "echo 3 > c.txt"); !strings.Contains(said, "the user undid turn 2") {
		s.Errorf("the model is told %q", said)
	}
}

// TestPluginWithoutSegno runs the plugin with commands that do not work, because segno was removed or
// is not a program. OpenCode would stop the user's prompt if the plugin threw an error.
func TestPluginWithoutSegno(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, nil)
	plugin, err := os.ReadFile(filepath.Join(agent.OpenCodeConfig(), "plugins", "segno.js"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("events.mjs", sendEvents, 0o600)
	plain := write("it's \"plain\"\nsegno", "", 0o600)
	self, err := json.Marshal(s.Binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{filepath.Join(dir, "missing"), plain, filepath.Join(plain, "segno"), "a\x00b",
		write("null", "#!/bin/sh\necho null\n", 0o700)} {
		broken, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(plugin), string(self), string(broken))
		if text == string(plugin) {
			t.Fatalf("the plugin does not run %s:\n%s", self, plugin)
		}
		module := write("segno.mjs", text, 0o600)
		if out := runNode(s, agent, script, module, dir); out != "end\n" {
			t.Errorf("with %q the plugin throws\n%s", command, out)
		}
	}
}

// runNode runs a script and returns its output.
func runNode(s *e2erig.Stage, agent *agentrig.ACP, args ...string) string {
	s.Helper()
	var out strings.Builder
	cmd := agent.Start(s.Ctx, append([]string{filepath.Join(agent.Path[0], "node")}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		s.Error(err)
	}
	return out.String()
}
