package opencode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// sendEvents loads a plugin and sends it the events of a turn, as OpenCode does. It prints each error
// that the plugin throws.
const sendEvents = `
const report = (name) => (e) => console.log(name + ": " + e)
for (const name of ["uncaughtException", "unhandledRejection"]) process.on(name, report(name))
const { Segno } = await import(process.argv[2])
const hooks = await Segno({ client: { tui: { showToast: async () => {} } }, directory: process.argv[3] })
const send = (name, ...args) => hooks[name](...args).catch(report(name))
const event = (type, properties) => send("event", { event: { type, properties } })
await event("session.created", { info: { id: "s" } })
await send("chat.message", { sessionID: "s" }, { message: { id: "m" }, parts: [] })
await send("tool.execute.before", { sessionID: "s", tool: "bash", callID: "c" }, { args: {} })
await send("tool.execute.after", { sessionID: "s", tool: "bash", callID: "c" }, { output: "", metadata: {} })
for (const type of ["message.updated", "message.part.updated", "session.error", "unknown"]) await event(type, {})
await event("session.idle", { sessionID: "s" })
await new Promise(setImmediate) // an unhandled rejection is reported then
console.log("end")
process.exit() // else the timeouts of processes that did not start keep node running
`

// TestPluginWithoutSegno runs the plugin with commands that do not work, because segno was removed or
// is not a program. OpenCode would stop the user's prompt if the plugin threw an error.
func TestPluginWithoutSegno(t *testing.T) {
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
