package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// honours configures an agent that can fork at a message; ignores configures one with the
// same name that cannot.
func honours(dir string) acptest.Config {
	c := acptest.Full(dir)
	c.Name, c.Version = "@agentclientprotocol/codex-acp", "2.6.0"
	return c
}

func ignores(dir string) acptest.Config {
	c := honours(dir)
	c.ForkAt = false
	return c
}

// forkers returns agents by the way in which they fork.
func forkers() map[string]func(string) acptest.Config {
	return map[string]func(string) acptest.Config{"none": none, "unknown": acptest.Full, "honours": honours, "ignores": ignores,
		"replays":   changed(honours, func(c *acptest.Config) { c.ForkReplay = true }),
		"loads":     changed(none, func(c *acptest.Config) { c.Load, c.Name = true, "gemini" }),
		"head only": changed(none, func(c *acptest.Config) { c.Fork = true })}
}

// forked is the result of session/fork.
type forked struct {
	SessionID string `json:"sessionId"`
	Meta      struct {
		Segno struct {
			Thread   string `json:"thread"`
			At       string `json:"at"`
			Turn     int    `json:"turn"`
			Fidelity string `json:"fidelity"`
			Note     string `json:"note"`
		} `json:"segno"`
	} `json:"_meta"`
}

func (r *rig) tryFork(c *acptest.Client, session, cwd string, meta map[string]any) (forked, error) {
	params := map[string]any{"sessionId": session, "cwd": cwd, "mcpServers": []any{}}
	if meta != nil {
		params["_meta"] = meta
	}
	var f forked
	m, err := c.Call(r.ctx, "session/fork", params)
	if err != nil {
		return f, err
	}
	return f, m.Decode(m.Result, &f)
}

func (r *rig) fork(c *acptest.Client, session, cwd string, meta map[string]any) forked {
	r.Helper()
	f, err := r.tryFork(c, session, cwd, meta)
	if err != nil {
		r.Fatalf("session/fork: %v", err)
	}
	if f.SessionID == "" || f.Meta.Segno.Thread == "" || f.Meta.Segno.At == "" || f.Meta.Segno.Fidelity == "" {
		r.Fatalf("the fork is %+v", f)
	}
	return f
}

func at(what string) map[string]any { return map[string]any{"segno": map[string]any{"at": what}} }

func atMessage(id string) map[string]any {
	return map[string]any{"jetbrains": map[string]any{"air": map[string]any{"fork": map[string]any{"version": 1, "messageId": id}}}}
}

// messageOf returns the id of the last message of a turn.
func messageOf(turn *acptest.Turn) string {
	id := ""
	for _, u := range turn.Updates() {
		if m := u.Text(u.Find(u.Params, "update", "messageId")); m != "" {
			id = m
		}
	}
	return id
}

// TestForkAtHead checks that the fork has all earlier turns, and that the model of each
// line receives only that line's turns, even after a restart.
func TestForkAtHead(t *testing.T) {
	eachAgent(t, forkers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.say(c, s, "beta")
		from := c.Place()
		f := r.fork(c, s, r.project, nil)
		if f.SessionID == s || f.Meta.Segno.Turn != 2 {
			t.Errorf("the fork of %s is %+v", s, f)
		}
		answered := false
		for _, m := range c.Messages()[from:] {
			answered = answered || m.IsResponse()
			if m.SessionID() == f.SessionID && !answered {
				t.Errorf("the client does not know the fork yet: %s", m.Line)
			}
		}
		r.say(c, f.SessionID, "fork-one")
		r.wantSeen([]string{"alpha", "beta", "fork-one"})
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "beta", "gamma"}, "fork-one")
		if got := r.sent().Session; got != s {
			t.Errorf("the source was rolled over to %s", got)
		}
		r.bothLive(c, s, f.SessionID)
	})
}

// bothLive restarts segno, loads a source and its fork and prompts both.
func (r *rig) bothLive(c *acptest.Client, s, fork string) {
	r.Helper()
	r.leave(c)
	c = r.client()
	for _, id := range []string{s, fork} {
		if got := r.open(c, "load", id); got != id {
			r.Errorf("load of %s answers %s", id, got)
		}
	}
	r.say(c, fork, "fork-two")
	r.wantSeen([]string{"alpha", "fork-one", "fork-two"}, "gamma")
	r.say(c, s, "delta")
	r.wantSeen([]string{"alpha", "beta", "gamma", "delta"}, "fork-one", "fork-two")
	r.segno("check")
}

// TestForkAtEarlierTurn names the turn in each supported way.
func TestForkAtEarlierTurn(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	want := map[string]string{"none": "preamble", "unknown": "preamble", "honours": "native", "ignores": "preamble", "replays": "native",
		"loads": "preamble", "head only": "preamble"}
	for name, agent := range forkers() {
		for _, how := range []string{"turn", "checkpoint", "message", "jetbrains"} {
			if how != "turn" && name != "none" && name != "honours" {
				continue // segno finds the fork point in the same way
			}
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, agent)
				c, s := r.session()
				first := r.write(c, s, "alpha")
				r.say(c, s, "beta")
				point := r.log()[1]
				meta := map[string]map[string]any{"turn": at("t1"), "checkpoint": at(point.ID), "message": at(messageOf(first)),
					"jetbrains": atMessage(messageOf(first))}[how]
				f := r.fork(c, s, r.project, meta)
				if f.Meta.Segno.At != point.ID || f.Meta.Segno.Turn != 1 || f.Meta.Segno.Fidelity != want[name] {
					t.Errorf("the fork is %+v; want it at %s, t1, %s", f, point.ID, want[name])
				}
				r.say(c, f.SessionID, "fork-one")
				r.wantSeen([]string{"alpha", "said-alpha", "fork-one"}, "beta")
				r.say(c, s, "gamma")
				r.wantSeen([]string{"alpha", "beta", "gamma"}, "fork-one")
				r.bothLive(c, s, f.SessionID)
			})
		}
	}
}

// TestForkOfFork checks that a fork of a fork has the first fork's turns.
func TestForkOfFork(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	eachAgent(t, forkers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.say(c, s, "beta")
		one := r.fork(c, s, r.project, at("t1"))
		r.say(c, one.SessionID, "fork-a")
		r.say(c, one.SessionID, "fork-b")
		if got := r.log()[0].Turn; got != 3 {
			t.Errorf("the fork at t1 goes on with t%d, t%d", got-1, got)
		}
		two := r.fork(c, one.SessionID, r.project, at("t2"))
		r.say(c, two.SessionID, "fork-c")
		r.wantSeen([]string{"alpha", "fork-a", "fork-c"}, "beta", "fork-b")
		three := r.fork(c, two.SessionID, r.project, at("t1"))
		r.say(c, three.SessionID, "fork-d")
		r.wantSeen([]string{"alpha", "fork-d"}, "beta", "fork-a", "fork-b", "fork-c")
	})
}

// TestForkInPlace checks that the client's id moves to the fork and the source does not
// change.
func TestForkInPlace(t *testing.T) {
	eachAgent(t, forkers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.say(c, s, "beta")
		source := r.log()[0].Thread
		f := r.fork(c, s, r.project, map[string]any{"segno": map[string]any{"at": "t1", "inPlace": true}})
		if f.SessionID != s || f.Meta.Segno.Thread == source || f.Meta.Segno.Turn != 1 {
			t.Errorf("the fork of %s in thread %s is %+v", s, source, f)
		}
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "gamma"}, "beta")
		r.leave(c)
		c = r.client()
		from := c.Place()
		r.open(c, "load", s)
		if got := strings.Join(shown(c, from), "\n"); !strings.Contains(got, "alpha") || !strings.Contains(got, "gamma") || strings.Contains(got, "beta") {
			t.Errorf("shown:\n%s", got)
		}
		r.say(c, s, "delta")
		r.wantSeen([]string{"alpha", "gamma", "delta"}, "beta")
		if got := r.segno("log", "--thread", source); !strings.Contains(got, "beta") {
			t.Errorf("the source has\n%s", got)
		}
	})
}

// TestForkInOtherDirectory checks that the fork's directory has the checkpoint's files,
// even if they changed since.
func TestForkInOtherDirectory(t *testing.T) {
	t.Parallel()
	for name, agent := range forkers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			r.put("mine", "one")
			c, s := r.session()
			r.write(c, s, "alpha")
			r.put("mine", "two")
			r.write(c, s, "beta")
			dir := r.project + "-fork"
			if name == "none" { // an empty directory may exist
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			f := r.fork(c, s, dir, at("t1"))
			if got := r.read(dir, "ledger"); got != "alpha-line\n" {
				t.Errorf("the fork's ledger has %q", got)
			}
			if got := r.read(dir, "mine"); got != "one" {
				t.Errorf("the fork's file has %q", got)
			}
			if got := r.read(r.project, "mine"); got != "two" {
				t.Errorf("the source's file has %q", got)
			}
			r.say(c, f.SessionID, "fork-one")
			r.wantSeen([]string{"alpha", "fork-one"}, "beta")
			if got := r.sent().Cwd; got != dir {
				t.Errorf("the fork works in %s, not in %s", got, dir)
			}
			if text := r.sent().Text(); !strings.Contains(text, dir) {
				t.Errorf("the request to the fork's model does not name the directory:\n%s", text)
			}
			list, err := c.List(r.ctx, dir)
			if err != nil || len(list) != 1 || list[0].SessionID != f.SessionID {
				t.Errorf("listed in the fork's directory: %v, %v", list, err)
			}
			r.say(c, s, "gamma")
			r.wantSeen([]string{"alpha", "beta", "gamma"}, "fork-one")
			if got := r.sent().Cwd; got != r.project {
				t.Errorf("the source works in %s", got)
			}
		})
	}
}

// put writes a file of the project.
func (r *rig) put(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.project, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// read returns the content of a file.
func (r *rig) read(dir, name string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		r.Error(err)
	}
	return string(data)
}

// TestForkIntoNonEmptyDirectory checks that segno refuses the fork and changes nothing.
func TestForkIntoNonEmptyDirectory(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	dir := r.project + "-fork"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "precious"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := r.tryFork(c, s, dir, nil)
	if e := r.refused(err); !strings.Contains(e.Message, "not empty") {
		t.Errorf("refused with %v", e)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the directory has %v, %v", names, err)
	}
	if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 1 {
		t.Errorf("a thread was made:\n%s", out)
	}
}

// TestForkDuringTurn checks that the fork begins after the last complete turn, reports
// that, and does not disturb the turn.
func TestForkDuringTurn(t *testing.T) {
	eachAgent(t, forkers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("said-beta")))
		r.says(turn, "on it")
		f := r.fork(c, s, r.project, nil)
		if f.Meta.Segno.Turn != 1 || f.Meta.Segno.Note == "" {
			t.Errorf("the fork is %+v", f)
		}
		r.say(c, f.SessionID, "fork-one")
		r.wantSeen([]string{"alpha", "fork-one"}, "beta")
		r.touch(r.home + "/go")
		r.ends(turn, "end_turn")
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "said-beta", "gamma"}, "fork-one")
	})
}

// TestForkAtUnknownCheckpoint checks that segno refuses the fork with a hint.
func TestForkAtUnknownCheckpoint(t *testing.T) {
	r, c, s := startSession(t, honours)
	if f, err := r.tryFork(c, s, r.project, at("t1")); err == nil {
		t.Errorf("a fork before the first turn: %+v", f)
	}
	r.say(c, s, "alpha")
	for _, what := range []string{"t7", "nonsense", "msg_nope"} {
		_, err := r.tryFork(c, s, r.project, at(what))
		if e := r.refused(err); !strings.Contains(e.Message, what) {
			t.Errorf("%s: refused with %v", what, e)
		}
	}
	_, err := r.tryFork(c, s, r.project, atMessage("msg_nope"))
	r.refused(err)
	_, err = r.tryFork(c, "00000000-0000-4000-8000-000000000000", r.project, nil)
	r.refused(err)
	r.say(c, s, "beta")
	r.wantSeen([]string{"alpha", "beta"})
}

// TestForkOfUnpromptedSession forks a session that was never prompted.
func TestForkOfUnpromptedSession(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		id, err := c.Open(r.ctx, "fork", s, r.project)
		if err != nil {
			r.refused(err)
			r.say(c, s, "alpha")
			return
		}
		r.say(c, id, "one")
		r.wantSeen([]string{"one"})
		r.say(c, s, "alpha")
		r.wantSeen([]string{"alpha"}, "one")
	})
}

// TestForkResultHasModes checks the fields that a client needs to show the fork.
func TestForkResultHasModes(t *testing.T) {
	eachAgent(t, forkers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		m, err := c.Call(r.ctx, "session/fork", map[string]any{"sessionId": s, "cwd": r.project, "mcpServers": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Modes struct {
				Current string            `json:"currentModeId"`
				All     []json.RawMessage `json:"availableModes"`
			} `json:"modes"`
		}
		if err := m.Decode(m.Result, &got); err != nil || got.Modes.Current != "default" || len(got.Modes.All) != 3 {
			t.Errorf("the answer is %s, %v", m.Line, err)
		}
	})
}

// TestForkWithTheIDOfAnEarlierSession forks a session. The agent gives the fork the id of a session of an earlier run, because the ids
// begin again in each process. The earlier session keeps its conversation.
func TestForkWithTheIDOfAnEarlierSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, changed(none, func(c *acptest.Config) { c.Fork, c.Numbered = true, true }))
	c, first := r.session()
	r.say(c, first, "alpha")
	second := r.open(c, "new", "")
	r.say(c, second, "beta")
	r.leave(c)
	c, s := r.session()
	r.say(c, s, "gamma")
	fork := r.fork(c, s, r.project, nil)
	if fork.SessionID == second {
		t.Errorf("the client received the id %s for the fork, too", second)
	}
	r.say(c, fork.SessionID, "of-the-fork")
	r.wantSeen([]string{"gamma", "of-the-fork"}, "beta")
	r.leave(c)
	c = r.client()
	for id, want := range map[string]string{second: "said-beta", fork.SessionID: "said-of-the-fork"} {
		from := c.Place()
		r.open(c, "load", id)
		if got := strings.Join(shown(c, from), "\n"); !strings.Contains(got, want) {
			t.Errorf("session %s lacks %q:\n%s", id, want, got)
		}
	}
}

// TestForkAtARepeatedPrompt forks at the first of two turns with the same prompt. An agent that ignores the fork point forks at the
// second. segno then continues in a session that has the first turn only.
func TestForkAtARepeatedPrompt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent    func(string) acptest.Config
		fidelity string
	}{"ignores": {ignores, "preamble"}, "honours": {honours, "native"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.agent)
			client, s := r.session()
			// The answer to the agent's request has its number, so the turns differ in their answers.
			prompt := "continue " + acptest.Directive(acptest.Step{Request: json.RawMessage(`{"method":"_number","params":{}}`)})
			r.turn(client, s, prompt)
			r.turn(client, s, prompt)
			f := r.fork(client, s, r.project, at("t1"))
			if f.Meta.Segno.Fidelity != c.fidelity {
				t.Errorf("the fidelity is %q, not %q", f.Meta.Segno.Fidelity, c.fidelity)
			}
			r.say(client, f.SessionID, "fork-one")
			if n := strings.Count(r.sent().Text(), "answered {"); n != 1 {
				t.Errorf("the model of the fork has the answers of %d turns:\n%s", n, r.sent().Text())
			}
		})
	}
}

// TestFailedForkInPlaceLeavesNoThread forks a session while its record cannot be replaced. The command fails, and the list of threads
// has no fork.
func TestFailedForkInPlaceLeavesNoThread(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	records, err := filepath.Glob(filepath.Join(r.data(), "acp", "*.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("the records are %v, %v", records, err)
	}
	mend := r.spoil(filepath.Join("acp", filepath.Base(records[0])))
	_ = os.Remove(records[0])
	if err := os.Mkdir(records[0], 0o700); err != nil {
		t.Fatal(err)
	}
	said := r.order(c, s, "/fork other")
	if !strings.HasPrefix(said, "segno: ") {
		t.Fatalf("/fork says %q", said)
	}
	if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 1 {
		t.Errorf("the fork failed, and the threads are\n%s", out)
	}
	mend()
	if said := r.order(c, s, "/fork other"); !strings.Contains(said, "/switch ") {
		t.Errorf("/fork says %q", said)
	}
	if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 2 {
		t.Errorf("after a fork the threads are\n%s", out)
	}
	list, _ := r.listed(c, r.project)
	if len(list) != 2 {
		t.Errorf("the list of sessions has %v", list)
	}
}

// TestForkMethodDuringTurn continues a session in a fork of it, while a turn of the session is under way. That is refused: the conversation
// would lose the turn. The next prompt's model has it.
func TestForkMethodDuringTurn(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.say(c, s, "alpha")
	turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("said-beta")))
	r.says(turn, "on it")
	_, forkErr := c.Call(r.ctx, "_segno/fork", map[string]any{"sessionId": s})
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	r.say(c, s, "gamma")
	r.wantSeen([]string{"alpha", "said-beta", "gamma"})
	if e := r.refused(forkErr); !strings.Contains(e.Message, "a turn is in progress") {
		t.Errorf("refused with %v", e)
	}
	if _, err := c.Call(r.ctx, "_segno/fork", map[string]any{"sessionId": s}); err != nil {
		t.Errorf("after the turn: %v", err)
	}
}
