package proxy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestNewSessionThatDidNotGetItsPrompt kills segno and the agent after the conversation continued in a new session, but before the agent
// had the first prompt of that session, which contains the summary. The next prompt contains the summary again.
func TestNewSessionThatDidNotGetItsPrompt(t *testing.T) {
	t.Parallel()
	agents := map[string]func(string) acptest.Config{
		"loads":   changed(none, func(c *acptest.Config) { c.Load = true }),
		"resumes": changed(none, func(c *acptest.Config) { c.Resume = true }),
		"both":    changed(none, func(c *acptest.Config) { c.Load, c.Resume = true, true }),
	}
	for name, agent := range agents {
		for _, lost := range []string{"before the client opens it", "while the client has it open"} {
			for _, method := range []string{"resume", "load"} {
				t.Run(name+", lost "+lost+", session "+method, func(t *testing.T) {
					t.Parallel()
					r := newRig(t, agent)
					c, s := r.session()
					r.write(c, s, "alpha")
					r.leave(c)
					r.agent.Deaf = []string{"session/prompt"}
					isOpen := lost != "before the client opens it"
					c = r.client()
					if isOpen {
						r.open(c, "resume", s)
						r.killAgent()
					}
					if err := os.RemoveAll(filepath.Join(r.agent.Dir, "sessions")); err != nil {
						t.Fatal(err)
					}
					if !isOpen {
						r.open(c, "resume", s)
					}
					if _, err := c.Prompt(s, "beta"); err != nil {
						t.Fatal(err)
					}
					r.until("the agent to get the prompt", func() bool { _, err := os.Lstat(r.agent.DeafFile()); return err == nil })
					c.Kill()
					<-c.Exited()

					r.agent.Deaf = nil
					c = r.client()
					r.open(c, method, s)
					r.say(c, s, "gamma")
					r.wantSeen([]string{"alpha", "alpha-line", "beta", "gamma"})
					r.say(c, s, "delta")
					r.wantSeen([]string{"alpha", "alpha-line", "beta", "gamma", "delta"})
				})
			}
		}
	}
}

// TestNewSessionThatLostItsPrompt is the case in which the agent answered the first prompt of the new session, and was killed before it
// stored the prompt. The replay shows that.
func TestNewSessionThatLostItsPrompt(t *testing.T) {
	agents := map[string]func(string) acptest.Config{
		"loads": changed(none, func(c *acptest.Config) { c.Load = true }),
		"both":  changed(none, func(c *acptest.Config) { c.Load, c.Resume = true, true }),
	}
	eachMethod(t, agents, []string{"resume", "load"}, func(t *testing.T, r *rig, method string) {
		c, s := r.session()
		r.write(c, s, "alpha")
		r.leave(c)
		if err := os.RemoveAll(filepath.Join(r.agent.Dir, "sessions")); err != nil {
			t.Fatal(err)
		}
		c = r.client()
		r.open(c, "resume", s)
		r.says(r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/never"})), "on it")
		c.Kill()
		<-c.Exited()
		r.killAgent()
		r.dropRecords()

		c = r.client()
		r.open(c, method, s)
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "alpha-line", "beta", "on it", "gamma"})
	})
}

// dropRecords removes all but the first record of the only session that the agent stored.
func (r *rig) dropRecords() {
	r.Helper()
	names, err := filepath.Glob(r.agent.SessionFiles())
	if err != nil || len(names) != 1 {
		r.Fatalf("the agent has the sessions %v, %v", names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		r.Fatal(err)
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if err := os.WriteFile(names[0], append(first, '\n'), 0o600); err != nil {
		r.Fatal(err)
	}
}
