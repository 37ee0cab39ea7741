package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/acp/acptest"
)

// schedule is one conversation and what goes wrong in it. It depends on nothing but
// its seed.
type schedule struct {
	seed  uint64
	agent acptest.Config // without its directory
	turns []plannedTurn
}

// plannedTurn is one prompt and what happens while it runs.
type plannedTurn struct {
	before []string // what happens before it: see the deeds
	steps  []acptest.Step
	deed   string // what happens in the midst of it; "" is nothing
	after  int    // how many updates come before that
}

// The deeds of a schedule.
const (
	restart     = "restart"      // the client closes stdin and comes back
	killSegno   = "kill segno"   // kill -9; the client comes back
	killAgent   = "kill agent"   // kill -9
	killBoth    = "kill both"    // kill -9 of segno, then of the agent; the client comes back
	killTool    = "kill tool"    // kill -9 of what the agent runs
	cancel      = "cancel"       // session/cancel
	loseSession = "lose session" // the agent's session file is deleted
)

// personas are the kinds of agent, by what they can do and how they fail.
func personas() []acptest.Config {
	full := acptest.Full("")
	claude := full
	claude.Name, claude.Version, claude.Missing = "@agentclientprotocol/claude-agent-acp", "0.100.0", "claude-0.100"
	old := claude
	old.Version, old.Missing, old.ForkAt, old.Keyed = "0.49.0", "claude-0.49", false, true
	codex := full
	codex.Name, codex.Version, codex.Missing, codex.NullResults = "@agentclientprotocol/codex-acp", "2.6.0", "codex", false
	opencode := full
	opencode.Name, opencode.Version, opencode.Missing, opencode.ForkReplay, opencode.Lazy = "OpenCode", "1.18.33", "opencode", true, false
	gemini := acptest.Config{Name: "gemini-cli", Version: "0.61.0", Missing: "gemini", Load: true, NullResults: true}
	return []acptest.Config{claude, old, codex, opencode, gemini, {Missing: "claude-0.100"}}
}

// plan makes the schedule of a seed.
func plan(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := personas()
	s := schedule{seed: seed, agent: kinds[r.IntN(len(kinds))]}
	s.agent.Title, s.agent.CRLF = one(r, 2), one(r, 8)
	if one(r, 4) {
		s.agent.Chunk = 1 + r.IntN(7)
	}
	s.agent.Ask = one(r, 4)
	for i := range 2 + r.IntN(3) {
		s.turns = append(s.turns, s.planTurn(r, i))
	}
	// What an agent did by itself in the moment its proxy was killed, only its own
	// session knows. One that has none, or loses it, has to ask first.
	if s.has(killSegno, killBoth) && (!s.agent.Load || s.has(loseSession)) {
		s.agent.Ask = true
	}
	return s
}

// has reports whether one of some deeds is in the schedule.
func (s *schedule) has(deeds ...string) bool {
	for _, t := range s.turns {
		for _, deed := range append(slices.Clone(t.before), t.deed) {
			if slices.Contains(deeds, deed) {
				return true
			}
		}
	}
	return false
}

func one(r *rand.Rand, in int) bool { return r.IntN(in) == 0 }

func (s *schedule) planTurn(r *rand.Rand, i int) plannedTurn {
	var t plannedTurn
	if i > 0 {
		for _, deed := range []string{loseSession, restart, killAgent, killBoth} {
			if one(r, 6) {
				t.before = append(t.before, deed)
			}
		}
	}
	if one(r, 4) {
		t.steps = append(t.steps, s.fault(r))
	}
	for k := range 1 + r.IntN(3) {
		if one(r, 3) {
			t.steps = append(t.steps, acptest.Say(fmt.Sprintf("working on part %d of turn %d", k, i)))
		}
		do := acptest.Do(fmt.Sprintf("line-%d-%d-%d", s.seed, i, k))
		do.Child = one(r, 5)
		if one(r, 5) {
			do.Strike, do.Times = []string{"intent", "effect", "recorded", "result"}[r.IntN(4)], 1
			do.How = []string{"kill", "exit", "drop", "child"}[r.IntN(4)]
			if do.How == "child" {
				do.Strike = []string{"intent", "effect"}[r.IntN(2)]
			}
		}
		t.steps = append(t.steps, do)
		if one(r, 5) {
			t.steps = append(t.steps, s.fault(r))
		}
	}
	t.steps = append(t.steps, acptest.Say(fmt.Sprintf("turn %d is done", i)))
	if one(r, 3) {
		t.deed = []string{cancel, killSegno, killAgent, killBoth, killTool, restart}[r.IntN(6)]
		t.after = r.IntN(3 * len(t.steps))
	}
	return t
}

// fault is a step that strikes once, or a few times.
func (s *schedule) fault(r *rand.Rand) acptest.Step {
	f := acptest.Step{Times: 1 + r.IntN(2)}
	switch r.IntN(8) {
	case 0:
		f.Kill = true
	case 1:
		code := r.IntN(3)
		f.Exit = &code
	case 2:
		f.Drop = true
	case 3:
		f.Empty = true
	case 4:
		f.Evict = true
	default:
		f.Fail = s.row(r)
	}
	return f
}

// row is a failure of the kind of agent it is.
func (s *schedule) row(r *rand.Rand) string {
	rows := []string{"claude.rate_limit", "claude.overload", "claude.key", "claude.auth", "claude.no_result", "claude.gone", "claude.ended"}
	if strings.Contains(s.agent.Name, "codex") {
		rows = []string{"codex.rate_limit", "codex.overload", "codex.drop", "codex.usage", "codex.auth", "codex.killed"}
	}
	return rows[r.IntN(len(rows))]
}

// String is the schedule for a reader.
func (s schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: agent %q %s load=%v resume=%v ask=%v chunk=%d\n", s.seed, s.agent.Name, s.agent.Version, s.agent.Load,
		s.agent.Resume, s.agent.Ask, s.agent.Chunk)
	for i, t := range s.turns {
		fmt.Fprintf(&b, "  turn %d: before %q; %q after %d updates; %s\n", i, t.before, t.deed, t.after, acptest.Directive(t.steps...))
	}
	return b.String()
}
