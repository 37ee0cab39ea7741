package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// announced returns the names of the commands in the newest announcement of a session.
func (r *rig) announced(c *acptest.Client, session string) []string {
	r.Helper()
	var names []string
	for _, m := range c.Messages() {
		if m.Update() != "available_commands_update" || m.SessionID() != session {
			continue
		}
		var list []struct{ Name, Description string }
		if err := m.Decode(m.Find(m.Params, "update", "availableCommands"), &list); err != nil {
			r.Fatalf("%v: %s", err, m.Line)
		}
		names = nil
		for _, cmd := range list {
			if cmd.Description == "" {
				r.Errorf("no description: %s", m.Line)
			}
			names = append(names, cmd.Name)
		}
	}
	return names
}

// ours returns the names of the proxy's commands.
func ours() []string {
	return []string{"checkpoints", "undo", "redo", "restore", "fork", "switch", "edit"}
}

// TestCommandsAreAnnounced checks that each session announces the proxy's commands together
// with the agent's, once.
func TestCommandsAreAnnounced(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string][]string{"agent has some": {"compact", "init"}, "agent has none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, changed(acptest.Full, func(c *acptest.Config) { c.Commands = theirs }))
			c, s := r.session()
			check := func(when, id string) {
				t.Helper()
				want := append(slices.Clone(theirs), ours()...)
				got := r.announced(c, id)
				if slices.Sort(got); !slices.Equal(got, sorted(want)) {
					t.Errorf("%s: announced %v; want %v", when, got, want)
				}
			}
			r.say(c, s, "alpha")
			check("new", s)
			fork := r.open(c, "fork", s)
			r.say(c, fork, "one")
			check("fork", fork)
			r.killAgent()
			r.say(c, s, "beta")
			check("another process", s)
			c = r.comeBack(c, "load", s)
			r.say(c, s, "gamma")
			check("load", s)
			c = r.comeBack(c, "resume", s)
			r.say(c, s, "delta")
			check("resume", s)
		})
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// files checks the files of the project.
func (r *rig) files(want map[string]string) {
	r.Helper()
	for name, text := range want {
		data, err := os.ReadFile(filepath.Join(r.project, name))
		if text == "" && !os.IsNotExist(err) {
			r.Errorf("%s is there: %q, %v", name, data, err)
		} else if text != "" && string(data) != text {
			r.Errorf("%s has %q, %v; want %q", name, data, err, text)
		}
	}
}

// three runs a conversation of three turns that each append to the ledger.
func (r *rig) three() (*acptest.Client, string) {
	r.Helper()
	c, s := r.session()
	for _, name := range []string{"alpha", "beta", "gamma"} {
		r.write(c, s, name)
	}
	return c, s
}

// verbs returns the ways to send a command: typed, or with a button.
func verbs() map[string]func(r *rig, c *acptest.Client, session, verb, arg string) string {
	return map[string]func(r *rig, c *acptest.Client, session, verb, arg string) string{
		"typed": func(r *rig, c *acptest.Client, session, verb, arg string) string {
			return r.order(c, session, strings.TrimSpace("/"+verb+" "+arg))
		},
		"button": func(r *rig, c *acptest.Client, session, verb, arg string) string {
			params := map[string]any{"sessionId": session}
			switch {
			case verb == "restore" || verb == "fork":
				params["to"] = arg
			case arg != "":
				params["turns"] = json.RawMessage(arg)
			}
			m, err := c.Call(r.ctx, "_segno/"+verb, params)
			if err != nil {
				r.Fatalf("_segno/%s: %v", verb, err)
			}
			return string(m.Result.Of(m.Line))
		},
	}
}

// TestUndoRedoRestore moves files and conversation together, with typed commands and with
// methods.
func TestUndoRedoRestore(t *testing.T) {
	t.Parallel()
	const one, two, three = "alpha-line\n", "alpha-line\nbeta-line\n", "alpha-line\nbeta-line\ngamma-line\n"
	for name, agent := range kinds() {
		for way, do := range verbs() {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, agent)
				c, s := r.three()
				if got := do(r, c, s, "checkpoints", ""); !strings.Contains(got, "t1") || !strings.Contains(got, "t3") || !strings.Contains(got, "beta") {
					t.Errorf("checkpoints: %s", got)
				}
				do(r, c, s, "undo", "")
				r.files(map[string]string{"ledger": two})
				do(r, c, s, "undo", "1")
				r.files(map[string]string{"ledger": one})
				do(r, c, s, "redo", "2")
				r.files(map[string]string{"ledger": three})
				do(r, c, s, "undo", "2")
				r.files(map[string]string{"ledger": one})
				r.say(c, s, "delta")
				r.wantSeen([]string{"alpha", "said-alpha", "delta"}, "beta", "gamma")
				do(r, c, s, "restore", "t2")
				r.files(map[string]string{"ledger": two})
				r.say(c, s, "epsilon")
				r.wantSeen([]string{"alpha", "beta", "epsilon"}, "gamma", "delta")
				if got := r.log(); len(got) != 5 {
					t.Errorf("the log has %+v", got)
				}
				if got := r.logged(); !strings.Contains(got, "gamma") || strings.Contains(got, "/") {
					t.Errorf("the log has %q", got)
				}
				r.segno("check")
			})
		}
	}
}

// TestUndoAllTurns checks that the conversation is empty and the files are as before the
// first turn.
func TestUndoAllTurns(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.three()
		r.order(c, s, "/undo 3")
		r.files(map[string]string{"ledger": ""})
		r.say(c, s, "delta")
		r.wantSeen([]string{"delta"}, "alpha", "beta", "gamma")
		if said := r.order(c, s, "/undo 7"); !strings.Contains(said, "segno:") {
			t.Errorf("more than there is: %q", said)
		}
	})
}

// TestEdit undoes a turn and all later ones, and sends another text.
func TestEdit(t *testing.T) {
	t.Parallel()
	for name, agent := range kinds() {
		for _, turn := range []string{"1", "2", "t2"} {
			t.Run(name+" "+turn, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, agent)
				c, s := r.three()
				edited := r.turn(c, s, "/edit "+turn+" delta "+acptest.Directive(acptest.Do("delta-line"), acptest.Say("said-delta")))
				if !strings.Contains(edited.Said(), "said-delta") {
					t.Errorf("the client was shown %q", edited.Said())
				}
				if turn == "1" {
					r.files(map[string]string{"ledger": "delta-line\n"})
					r.wantSeen([]string{"delta"}, "alpha", "beta", "gamma")
				} else {
					r.files(map[string]string{"ledger": "alpha-line\ndelta-line\n"})
					r.wantSeen([]string{"alpha", "delta"}, "beta", "gamma")
				}
				r.wantSeen(nil, "/edit")
				if got := r.logged(); !strings.HasPrefix(got, "delta ") || !strings.Contains(got, "gamma beta alpha") {
					t.Errorf("the log has %q", got)
				}
			})
		}
	}
}

// TestEditMethod checks that the method only undoes: the client sends the prompt.
func TestEditMethod(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	if _, err := c.Call(r.ctx, "_segno/edit", map[string]any{"sessionId": s, "turn": 2}); err != nil {
		t.Fatal(err)
	}
	r.files(map[string]string{"ledger": "alpha-line\n"})
	r.write(c, s, "delta")
	r.wantSeen([]string{"alpha", "delta"}, "beta", "gamma")
}

// TestForkCommand checks that the client's id moves to the fork.
func TestForkCommand(t *testing.T) {
	t.Parallel()
	for way, do := range verbs() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			c, s := r.three()
			source := r.log()[0].Thread
			do(r, c, s, "fork", map[string]string{"typed": "my experiment", "button": "t3"}[way])
			r.write(c, s, "delta")
			r.wantSeen([]string{"alpha", "beta", "gamma", "delta"})
			if got := r.segno("log", "--thread", source); strings.Contains(got, "delta") {
				t.Errorf("the source has\n%s", got)
			}
			if got := r.segno("threads"); way == "typed" && !strings.Contains(got, "my experiment") {
				t.Errorf("the threads are\n%s", got)
			}
		})
	}
}

// TestConflictIsReported checks that a later change of the user is kept and reported.
func TestConflictIsReported(t *testing.T) {
	t.Parallel()
	for way, do := range verbs() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, none)
			c, s := r.three()
			r.put("ledger", "mine\n")
			if got := do(r, c, s, "undo", ""); !strings.Contains(got, "ledger") {
				t.Errorf("the user sees %q", got)
			}
			r.files(map[string]string{"ledger": "mine\n"})
		})
	}
}

// TestFailingCommand checks that the reply has the reason, and ends the turn or the
// request.
func TestFailingCommand(t *testing.T) {
	r, c, s := startSession(t, none)
	for _, command := range []string{"/undo", "/redo", "/restore", "/restore t9", "/undo zero", "/undo -1", "/edit", "/edit 1", "/edit 9 text"} {
		if said := r.order(c, s, command); !strings.Contains(said, "segno: ") {
			t.Errorf("%s: said %q", command, said)
		}
	}
	r.write(c, s, "alpha")
	for _, command := range []string{"/redo", "/restore", "/restore t9", "/undo zero", "/undo -1", "/edit", "/edit 1", "/edit 9 text"} {
		if said := r.order(c, s, command); !strings.Contains(said, "segno: ") {
			t.Errorf("%s: said %q", command, said)
		}
	}
	for method, params := range map[string]map[string]any{"undo": {"turns": 9}, "redo": {}, "restore": {"to": "t9"}, "edit": {"turn": 7}, "dance": {}, "restore ": {}} {
		params["sessionId"] = s
		_, err := c.Call(r.ctx, "_segno/"+method, params)
		if e := r.refused(err); e.Message == "" {
			t.Errorf("%s: refused with %v", method, e)
		}
	}
	_, err := c.Call(r.ctx, "_segno/undo", map[string]any{"sessionId": "unknown"})
	r.refused(err)
	_, err = c.Call(r.ctx, "_segno/undo", map[string]any{})
	r.refused(err)
	r.files(map[string]string{"ledger": "alpha-line\n"})
	if got := r.logged(); got != "alpha" {
		t.Errorf("the log has %q", got)
	}
}

// TestAgentCommandsAreForwarded checks that the agent's commands, and paths, are forwarded
// unchanged.
func TestAgentCommandsAreForwarded(t *testing.T) {
	r, c, s := startSession(t, none)
	for _, text := range []string{"/compact now", "/undone", "/undo/it.go is broken", "please /undo", "/"} {
		r.turn(c, s, text+" "+acptest.Directive(acptest.Say("said-"+text)))
		if got := r.sent().Prompt(); !strings.HasPrefix(got, text) {
			t.Errorf("the agent was sent %q", got)
		}
	}
}

// TestCommandDuringTurn checks that a command waits for the turn, and that a move reports
// why it is not possible.
func TestCommandDuringTurn(t *testing.T) {
	r, c, s := startSession(t, none)
	r.write(c, s, "alpha")
	turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Do("beta-line")))
	r.says(turn, "on it")
	undo := r.prompt(c, s, "/undo")
	_, err := c.Call(r.ctx, "_segno/undo", map[string]any{"sessionId": s})
	if e := r.refused(err); !strings.Contains(e.Message, "turn") {
		t.Errorf("refused with %v", e)
	}
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	r.ends(undo, "end_turn")
	r.files(map[string]string{"ledger": "alpha-line\n"})
	if log := r.segno("op", "log"); !strings.Contains(log, "via ACP client") {
		t.Errorf("the log of operations has no actor:\n%s", log)
	}
	r.say(c, s, "gamma")
	r.wantSeen([]string{"alpha", "gamma"}, "beta")
}

// TestUndoInTerminal checks that the session follows an undo in a terminal at its next
// prompt.
func TestUndoInTerminal(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.three()
		r.segno("undo", "-y")
		r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
		r.write(c, s, "delta")
		r.wantSeen([]string{"alpha", "beta", "delta"}, "gamma")
		r.segno("restore", "t1", "-y")
		r.write(c, s, "epsilon")
		r.wantSeen([]string{"alpha", "epsilon"}, "beta", "gamma", "delta")
		c = r.comeBack(c, "load", s)
		if got := strings.Join(shown(c, 0), "\n"); !strings.Contains(got, "epsilon") || strings.Contains(got, "delta") || strings.Contains(got, "gamma") {
			t.Errorf("load shows\n%s", got)
		}
	})
}

// TestMoveInTerminalDuringTurn checks that the move is refused and the turn continues.
func TestMoveInTerminalDuringTurn(t *testing.T) {
	r, c, s := startSession(t, none)
	r.write(c, s, "alpha")
	turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Do("beta-line")))
	r.says(turn, "on it")
	if out, err := r.command("undo", "-y").CombinedOutput(); err == nil || !strings.Contains(string(out), "turn") {
		t.Errorf("undo under an open turn: %v\n%s", err, out)
	}
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
}

// TestCheckpointsMethod checks the fields that a client needs for a list with buttons.
func TestCheckpointsMethod(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	r.order(c, s, "/undo")
	m, err := c.Call(r.ctx, "_segno/checkpoints", map[string]any{"sessionId": s})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Thread      string
		Checkpoints []struct {
			ID, Name, Kind, Title, Time string
			Turn                        int
			Head, Ahead                 bool
		}
	}
	if err := m.Decode(m.Result, &got); err != nil {
		t.Fatal(err)
	}
	var turns []string
	for _, c := range got.Checkpoints {
		if c.Kind == "turn" {
			turns = append(turns, c.Name+map[bool]string{true: "@"}[c.Head]+map[bool]string{true: "+"}[c.Ahead])
		}
	}
	if want := []string{"t1", "t2@", "t3+"}; !slices.Equal(turns, want) || got.Thread == "" {
		t.Errorf("got %v in %q, want %v", turns, got.Thread, want)
	}
	_, err = c.Call(r.ctx, "_segno/unheard", map[string]any{"sessionId": s})
	if e := r.refused(err); e.Code != acp.CodeMethodNotFound {
		t.Errorf("an unknown method is refused with %v", e)
	}
}

// TestCheckpointWithSeveralPins restores a checkpoint under each of its pins.
func TestCheckpointWithSeveralPins(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	r.segno("pin", "t1", "good")
	r.segno("pin", "t1", "best")
	for _, name := range []string{"good", "best"} {
		r.order(c, s, "/restore "+name)
		r.files(map[string]string{"ledger": "alpha-line\n"})
		r.order(c, s, "/restore t3")
		r.files(map[string]string{"ledger": "alpha-line\nbeta-line\ngamma-line\n"})
	}
}

// TestNamesOfCheckpoints restores checkpoints under the names that the command line has.
func TestNamesOfCheckpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	for _, x := range []struct{ name, want string }{
		{"@-", "alpha-line\nbeta-line\n"}, {"latest", "alpha-line\nbeta-line\ngamma-line\n"}, {"latest--", "alpha-line\n"}, {"@", "alpha-line\n"}, {"latest-", "alpha-line\nbeta-line\n"},
	} {
		if said := r.order(c, s, "/restore "+x.name); strings.Contains(said, "segno: ") {
			t.Errorf("/restore %s says %q", x.name, said)
		}
		r.files(map[string]string{"ledger": x.want})
	}
	said := r.order(c, s, "/restore @---------")
	if !strings.Contains(said, "@---------") || !strings.Contains(said, "/checkpoints") {
		t.Errorf("it says %q", said)
	}
}
