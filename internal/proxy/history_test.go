package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// foreign makes a session of two turns that the agent had without segno.
func (r *rig) foreign() string {
	r.Helper()
	return r.withoutSegno(func(c *acptest.Client, s string) {
		r.write(c, s, "alpha")
		r.write(c, s, "beta")
	})
}

// readers returns agents that replay a session's turns, by their other capabilities.
func readers() map[string]func(string) acptest.Config {
	return map[string]func(string) acptest.Config{
		"full": acptest.Full,
		"forks at messages": changed(acptest.Full, func(c *acptest.Config) {
			c.Name, c.Version, c.ForkTurns = "codex-acp", "2.6.0", true
		}),
		"only loads": changed(none, func(c *acptest.Config) { c.Load = true }),
	}
}

// TestEarlierTurnsAreRecorded records turns from before segno while the agent replays them.
// They survive an undo, an edit and the loss of the agent's session.
func TestEarlierTurnsAreRecorded(t *testing.T) {
	t.Parallel()
	alpha, beta := []string{"alpha", "alpha-line", "said-alpha"}, []string{"beta", "beta-line", "said-beta"}
	cases := map[string]struct {
		do     func(r *rig, c *acptest.Client, s string)
		seen   []string
		unseen []string
	}{
		"undo": {func(r *rig, c *acptest.Client, s string) {
			r.order(c, s, "/undo")
			r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
		}, append(alpha[:3:3], beta...), []string{"gamma"}},
		"undo below": {func(r *rig, c *acptest.Client, s string) {
			r.order(c, s, "/undo 2")
			r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
		}, alpha, []string{"said-beta", "gamma"}},
		"edit": {func(r *rig, c *acptest.Client, s string) {
			r.turn(c, s, "/edit 3 epsilon "+acptest.Directive(acptest.Say("said-epsilon")))
		}, append(alpha[:3:3], "beta", "said-beta", "epsilon"), []string{"gamma"}},
		"edit below": {func(r *rig, c *acptest.Client, s string) {
			r.turn(c, s, "/edit 2 epsilon "+acptest.Directive(acptest.Say("said-epsilon")))
		}, append(alpha[:3:3], "epsilon"), []string{"said-beta", "gamma"}},
		"loss": {func(r *rig, c *acptest.Client, s string) {
			r.killAgent()
			if err := os.RemoveAll(filepath.Join(r.agent.Dir, "sessions")); err != nil {
				r.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(r.agent.Dir, "sessions"), 0o700); err != nil {
				r.Fatal(err)
			}
		}, append(append(alpha[:3:3], beta...), "gamma"), nil},
	}
	for name, agent := range readers() {
		for what, tc := range cases {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, agent)
				s := r.foreign()
				c := r.client()
				r.open(c, "load", s)
				r.write(c, s, "gamma")
				tc.do(r, c, s)
				r.say(c, s, "delta")
				r.wantSeen(append(tc.seen[:len(tc.seen):len(tc.seen)], "delta"), tc.unseen...)
				if got := r.logged(); !strings.Contains(got, "gamma beta alpha") {
					t.Errorf("the log has %q", got)
				}
				r.segno("check")
			})
		}
	}
}

// TestEarlierTurnsWithoutLoad checks that the proxy asks the agent for the turns from
// before segno ahead of the first prompt, whichever method opened the session.
func TestEarlierTurnsWithoutLoad(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"resume", "fork", "load and leave"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			s := r.foreign()
			c := r.client()
			if method == "load and leave" {
				r.open(c, "load", s)
				r.leave(c)
				c = r.client()
			} else {
				s = r.open(c, method, s)
			}
			from := c.Place()
			r.say(c, s, "gamma")
			for _, u := range shown(c, from) {
				if strings.Contains(u, "alpha") || strings.Contains(u, "beta") {
					t.Errorf("the client was shown %q", u)
				}
			}
			r.order(c, s, "/undo")
			r.say(c, s, "delta")
			r.wantSeen([]string{"alpha-line", "said-beta", "delta"}, "gamma")
			c = r.comeBack(c, "load", s)
			if got := strings.Join(shown(c, 0), "\n"); !strings.Contains(got, "said-alpha") || !strings.Contains(got, "beta-line") || strings.Contains(got, "gamma") {
				t.Errorf("a load shows\n%s", got)
			}
		})
	}
}

// TestEarlierTurnsThatAreNotReplayed checks that segno refuses a move, with the reason, if
// the session would lose turns. The user may force the move.
func TestEarlierTurnsThatAreNotReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t, changed(acptest.Full, func(c *acptest.Config) { c.Load = false }))
	s := r.foreign()
	c := r.client()
	r.open(c, "resume", s)
	r.write(c, s, "gamma")
	for _, command := range []string{"/undo", "/edit 1 other", "/restore t1"} {
		if said := r.order(c, s, command); !strings.Contains(said, "does not replay") {
			t.Errorf("%s: said %q", command, said)
		}
	}
	_, err := c.Call(r.ctx, "_segno/undo", map[string]any{"sessionId": s})
	if e := r.refused(err); !strings.Contains(e.Message, "does not replay") {
		t.Errorf("refused with %v", e)
	}
	r.say(c, s, "delta")
	r.wantSeen([]string{"alpha", "beta", "gamma", "delta"})
	if _, err := c.Call(r.ctx, "_segno/undo", map[string]any{"sessionId": s, "turns": 2, "incomplete": true}); err != nil {
		t.Error(err)
	}
	r.files(map[string]string{"ledger": "alpha-line\nbeta-line\n"})
	from := c.Place()
	r.say(c, s, "epsilon")
	if got := strings.Join(shownOurs(c, from), "\n"); !strings.Contains(got, "before segno") {
		t.Errorf("the user sees %q", got)
	}
}

// TestEarlierTurnsOfSegnoAgent records turns that segno's agent had before the proxy.
func TestEarlierTurnsOfSegnoAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	own := []string{os.Args[0], "segno", "--store", filepath.Join(r.home, "agents"), "agent"}
	cmd := r.command(own[2:]...)
	bare := r.started(cmd, acptest.ClientOptions{}, "")
	if _, err := bare.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	s := r.open(bare, "new", "")
	r.turn(bare, s, "write a.txt: alpha")
	r.leave(bare)
	c := r.start(acptest.ClientOptions{}, "", own...)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	r.open(c, "load", s)
	r.turn(c, s, "write b.txt: beta")
	r.order(c, s, "/undo")
	r.files(map[string]string{"a.txt": "alpha", "b.txt": ""})
	from := c.Place()
	r.open(c, "load", s)
	if got := strings.Join(shown(c, from), "\n"); !strings.Contains(got, "alpha") || strings.Contains(got, "beta") {
		t.Errorf("a load shows\n%s", got)
	}
}
