package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// keyed configures an agent that finds a session only in the directory in which it was
// made.
func keyed(dir string) acptest.Config {
	c := acptest.Full(dir)
	c.Keyed, c.Missing = true, "claude-0.49"
	return c
}

// movers returns agents that handle another directory in different ways.
func movers() map[string]func(string) acptest.Config {
	return map[string]func(string) acptest.Config{"full": acptest.Full, "none": none, "keyed": keyed}
}

// TestOpenInOtherDirectory continues a thread in another directory and then in the first
// one.
func TestOpenInOtherDirectory(t *testing.T) {
	eachMethod(t, movers(), []string{"load", "resume"}, func(t *testing.T, r *rig, method string) {
		home, away := r.project, r.project+"-away"
		if err := os.Mkdir(away, 0o755); err != nil {
			t.Fatal(err)
		}
		c, s := r.session()
		r.say(c, s, "alpha")
		c = r.openedIn(c, method, s, away)
		r.say(c, s, "beta")
		r.wantSeen([]string{"alpha", "beta"})
		if got := r.sent().Cwd; got != away {
			t.Errorf("the agent works in %s", got)
		}
		c = r.openedIn(c, method, s, home)
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "beta", "gamma"})
		if got := r.sent().Cwd; got != home {
			t.Errorf("the agent works in %s", got)
		}
		if got := r.logged(); got != "gamma beta alpha" {
			t.Errorf("the log has %q", got)
		}
		r.segno("check")
	})
}

// openedIn reconnects and opens a session in a directory.
func (r *rig) openedIn(c *acptest.Client, method, session, dir string) *acptest.Client {
	r.Helper()
	was := r.project
	defer func() { r.project = was }()
	r.project = dir
	return r.comeBack(c, method, session)
}

// TestRenamedDirectory checks that the thread follows the directory and that an undo finds
// the files.
func TestRenamedDirectory(t *testing.T) {
	t.Parallel()
	for name, agent := range movers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c, s := r.session()
			r.turn(c, s, "alpha "+acptest.Directive(acptest.Say("said-alpha")))
			r.write(c, s, "beta")
			r.leave(c)
			old := r.project
			r.project = old + "-new"
			if err := os.Rename(old, r.project); err != nil {
				t.Fatal(err)
			}
			r.agent.Ledger = filepath.Join(r.project, "ledger")
			c = r.client()
			r.open(c, "load", s)
			r.write(c, s, "gamma")
			r.wantSeen([]string{"alpha", "beta", "gamma"})
			r.files(map[string]string{"ledger": "beta-line\ngamma-line\n"})
			r.order(c, s, "/undo 2")
			r.files(map[string]string{"ledger": ""})
			if _, err := os.Lstat(old); !os.IsNotExist(err) {
				t.Errorf("the old directory is there again: %v", err)
			}
			r.say(c, s, "delta")
			r.wantSeen([]string{"alpha", "delta"}, "beta", "gamma")
		})
	}
}

// TestOpenUnpromptedInOtherDirectory opens an unprompted session in another directory.
func TestOpenUnpromptedInOtherDirectory(t *testing.T) {
	t.Parallel()
	for name, agent := range movers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			away := r.project + "-away"
			if err := os.Mkdir(away, 0o755); err != nil {
				t.Fatal(err)
			}
			c, s := r.session()
			c = r.openedIn(c, "resume", s, away)
			r.say(c, s, "alpha")
			if got := r.sent().Cwd; got != away {
				t.Errorf("the agent works in %s", got)
			}
		})
	}
}

// TestOpenInMissingDirectory checks that segno refuses the request and does not change the
// session.
func TestOpenInMissingDirectory(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	gone := r.project + "-gone"
	if _, err := c.Open(r.ctx, "load", s, gone); err != nil {
		if e := r.refused(err); !strings.Contains(e.Message, gone) {
			t.Errorf("refused with %v", e)
		}
	} else if _, err := r.prompt(c, s, "beta").Stop(r.ctx); err != nil {
		if e := r.refused(err); !strings.Contains(e.Message, gone) {
			t.Errorf("refused with %v", e)
		}
	}
	c = r.comeBack(c, "load", s)
	r.say(c, s, "gamma")
	r.wantSeen([]string{"alpha", "gamma"})
	if got := r.sent().Cwd; got != r.project {
		t.Errorf("the agent works in %s", got)
	}
}

// TestUndoAfterOpenInOtherDirectory checks that an undo does not write to the previous
// directory.
func TestUndoAfterOpenInOtherDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	away := r.project + "-away"
	if err := os.Mkdir(away, 0o755); err != nil {
		t.Fatal(err)
	}
	c, s := r.session()
	r.say(c, s, "alpha")
	r.write(c, s, "beta")
	c = r.openedIn(c, "load", s, away)
	r.say(c, s, "gamma")
	r.order(c, s, "/undo")
	r.files(map[string]string{"ledger": "beta-line\n"})
	r.say(c, s, "delta")
	r.wantSeen([]string{"alpha", "beta", "delta"}, "gamma")
	r.order(c, s, "/undo 2")
	r.files(map[string]string{"ledger": "beta-line\n"})
	if names, err := os.ReadDir(away); err != nil || len(names) != 0 {
		t.Errorf("the other directory has %v, %v", names, err)
	}
}
