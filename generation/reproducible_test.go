package generation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/generation"
)

// whyNot runs an experiment to its end. It returns the reasons in its newest row and in its status why another run may
// differ.
func (r *rig) whyNot(c generation.Config) string {
	r.Helper()
	if err := generation.New(c).Run(r.Context()); err != nil {
		r.Fatal(err)
	}
	s, _, err := generation.ReadStatus(r.Context(), c.Out, "village")
	rows := r.rows()
	last := rows[len(rows)-1]
	if err != nil || s.WhyNot != last.WhyNot {
		r.Errorf("the status says %q and the row %q, %v", s.WhyNot, last.WhyNot, err)
	}
	if want := map[bool]string{true: ",yes,,", false: ",no,"}[last.WhyNot == ""]; !strings.Contains(r.chain(), want) {
		r.Errorf("%q is not in\n%s", want, r.chain())
	}
	return last.WhyNot
}

// TestReproducible checks the reasons for which another run may differ.
func TestReproducible(t *testing.T) {
	const second = "[[agents]]\nname = \"Bo\"\n"
	for name, test := range map[string]struct{ more, want string }{
		"one agent":         {"", ""},
		"a fixed order":     {"order = \"fixed\"\n" + second, ""},
		"no order":          {second, "no fixed order"},
		"a model":           {"[[agents]]\nname = \"Bo\"\nmodel = \"openai/gpt\"\n", "Bo has a model"},
		"an agent of users": {"[[agents]]\nname = \"Bo\"\nkind = \"claude\"\n", "Bo has a model"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.config(1, 1)
			r.change(&c, func(text string) string {
				order, agents, _ := strings.Cut(test.more, "[[")
				if agents != "" {
					agents = "[[" + agents
				}
				return order + text + agents
			})
			c.Kinds[generation.KindClaude] = r.kind
			if why := r.whyNot(c); (why == "") != (test.want == "") || !strings.Contains(why, test.want) {
				t.Errorf("it is not reproducible because of %q, want %q", why, test.want)
			}
		})
	}
}

// change edits the file of an experiment.
func (r *rig) change(c *generation.Config, edit func(string) string) {
	r.Helper()
	file := filepath.Join(r.dir, "village.toml")
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(edit(string(data))), 0o600)
	}
	if err == nil {
		c.Experiment, err = generation.ReadExperiment(file)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// TestReproducibleChain checks which reasons a generation inherits: a changed file, and a checkpoint within turns.
func TestReproducibleChain(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 2)
	if why := r.whyNot(c); why != "" {
		t.Fatal(why)
	}
	r.change(&c, func(text string) string { return strings.Replace(text, "generations = 1", "generations = 2", 1) })
	if why := r.whyNot(c); why != "" {
		t.Errorf("one more generation: %s", why)
	}
	r.change(&c, func(text string) string {
		return strings.Replace(text, "generations = 2", "generations = 3\nseed = 9", 1)
	})
	if why := r.whyNot(c); !strings.Contains(why, "the file of the experiment changed") {
		t.Errorf("another seed: %q", why)
	}
	c.ResumeFrom = r.path("village-g002/checkpoints/gen002-t000001.ckpt")
	if why := r.whyNot(c); !strings.Contains(why, "the file of the experiment changed") {
		t.Errorf("another seed after a checkpoint: %q", why)
	}
}

// TestCheckpointWithinTurnsIsNotReproducible stops an agent in the middle of a turn. The next run begins the turn
// again.
func TestCheckpointWithinTurnsIsNotReproducible(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(r.dir, "started")
	r.kind.more = func(n int) string {
		if n != 2 {
			return "true"
		}
		go func() {
			waitFor(t, func() bool { return exists(started) })
			cancel()
		}()
		return "echo > " + started + "; exec sleep 1000"
	}
	c := r.config(2, 3)
	c.Grace = time.Millisecond
	_ = generation.New(c).Run(ctx) // the test stops the run, so it returns an error
	if why := r.whyNot(c); !strings.Contains(why, "a checkpoint within turns") {
		t.Errorf("it is not reproducible because of %q", why)
	}
	if rows := r.rows(); len(rows) != 3 || rows[0].WhyNot != "" || rows[1].WhyNot == "" || rows[2].WhyNot == "" {
		t.Errorf("the rows are %+v", rows)
	}
}
