package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// journey is a random history of an agent that works in a directory, with the notes of an
// observer. The same seed makes the same journey.
type journey struct {
	*project
	home   string // contains the project's directory
	seed   uint64
	rnd    *rand.Rand
	store  siteGate
	life   *life
	said   []string
	paid   map[string]int  // how often each bill was paid
	began  map[string]bool // the calls that pay
	undone map[string]int  // turns that a thread has undone and may redo
}

// eachSeed makes a journey for each of some new seeds and of the seeds that failed before.
func eachSeed(t *testing.T, change func(j *journey, c *agent.Config), test func(j *journey), failed ...uint64) {
	t.Parallel()
	for _, seed := range slices.Concat(failed, soak.Seeds(t, 12, 500)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			test(setOff(t, seed, change))
		})
	}
}

func setOff(t *testing.T, seed uint64, change func(j *journey, c *agent.Config)) *journey {
	t.Helper()
	home := t.TempDir()
	j := &journey{project: &project{T: t, dir: filepath.Join(home, "project")}, home: home, seed: seed,
		rnd: rand.New(rand.NewPCG(seed, 0)), life: &life{}, paid: map[string]int{}, began: map[string]bool{}, undone: map[string]int{}}
	fill(t, home, map[string]string{"mine.txt": "mine"})
	store := memory.New(nil)
	j.store = siteGate{&gate{lessor: store, before: j.life.before, after: j.life.made}, store}
	j.Agent = agent.New(agent.Config{Model: offline.New()})
	root, err := atSite(t.Context(), &j.Agent, j.store, home)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	c := j.Config
	c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond}
	change(j, &c)
	j.Agent = agent.New(c)
	return j
}

// paying lets the agent and its helper pay bills after approval, and lets them be killed.
func (j *journey) paying(c *agent.Config) {
	c.Tools = append(c.Tools, agent.NewTool("pay", "pays a bill", agent.LostAsk, func(_ context.Context, inv *agent.Invocation, bill mail) (string, error) {
		j.paid[bill.To]++
		j.began[inv.ID] = true
		j.note("     pays ", bill.To)
		return "paid " + bill.To, os.WriteFile(filepath.Join(j.dir, "receipt"+bill.To), []byte("paid "+bill.To), 0o644)
	}))
	c.Approve = agent.RequireApproval("pay")
	c.Subagents = []agent.Subagent{{Name: "helper"}}
	c.Timeline.Spool = mortalSpool{c.Timeline.Spool, j.life}
	c.Timeline.Alive = func(timeline.OpenTurn) bool { return false } // every process with an open turn was killed
}

// bill returns the bill that a question is about.
func (j *journey) bill(q segno.Interrupt) string {
	j.Helper()
	var bill mail
	if err := json.Unmarshal(q.Args, &bill); err != nil || bill.To == "" {
		j.broken("it asks about %s %s", q.Tool, q.Args)
	}
	return bill.To
}

// delegated returns a prompt that gives the work to the helper.
func delegated(prompt string) string {
	return "task helper: " + strings.ReplaceAll(prompt, "\n", `\n`)
}

// chance returns true once in n calls, on average.
func (j *journey) chance(n int) bool { return j.rnd.IntN(n) == 0 }

func (j *journey) note(what ...any) { j.said = append(j.said, fmt.Sprint(what...)) }

// broken ends a journey with a failure and prints its notes.
func (j *journey) broken(format string, args ...any) {
	j.Helper()
	j.Fatalf("seed %d: %s\n%s", j.seed, fmt.Sprintf(format, args...), strings.Join(j.said, "\n"))
}

// recorder returns another process's timeline of the files.
func (j *journey) recorder() *timeline.Timeline { return j.Timeline }

// person writes a file as a person would.
func (j *journey) person(name, text string) {
	j.Helper()
	j.write(name, text)
	j.note("a person writes ", name, ": ", text)
}

// life determines at which commit a run is killed. After that commit, nothing is written until
// begin is called again.
type life struct {
	mu    sync.Mutex
	left  int // commits until the run is killed; 0 is never
	after bool
	last  segno.CommitID
	ended bool
}

// begin lets the next run make so many commits. The last of them is applied only if after is set.
func (l *life) begin(commits int, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.after, l.last, l.ended = commits, after, "", false
}

func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (l *life) before(_ int, c segno.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errDisk
	}
	l.left--
	if l.left != 0 {
		return nil
	}
	l.ended = true
	if !l.after {
		return errDisk
	}
	l.last = c.ID
	return nil
}

func (l *life) made(_ int, c segno.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended && l.last == c.ID {
		return errDisk
	}
	return nil
}

// mortalSpool keeps a killed run's turns open.
type mortalSpool struct {
	timeline.Spool
	life *life
}

func (s mortalSpool) DeleteTurn(ctx context.Context, key segno.TurnKey) error {
	if s.life.over() {
		return errDisk
	}
	return s.Spool.DeleteTurn(ctx, key)
}
