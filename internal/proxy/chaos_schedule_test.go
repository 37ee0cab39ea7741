package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// schedule is a plan of conversations of one or two clients with an agent, and of the failures
// in them. It depends only on its seed.
type schedule struct {
	seed     uint64
	agent    acptest.Config // without its directory
	talks    [][]plannedTurn
	forks    [][]plannedTurn // the turns of conversations that are forked off
	together bool            // turns of two conversations overlap
	apart    bool            // each conversation has a separate directory
	readable bool            // the agent keeps transcripts that segno can read
	adopted  bool            // the first conversation begins without segno
	plan     bool            // the client chooses a mode
	hasty    bool            // the client returns while the earlier agent may still run
}

// plannedTurn is one prompt and the events of its turn.
type plannedTurn struct {
	before []string // events before the prompt: see the deeds
	steps  []acptest.Step
	deed   string // an event during the turn, "" for none
	after  int    // the number of messages before the deed
	back   int    // the most turns that a move before the prompt undoes or redoes
}

// The deeds of a schedule.
const (
	restart     = "restart"      // the client closes stdin and returns
	killSegno   = "kill segno"   // kill -9; the client returns
	killAgent   = "kill agent"   // kill -9
	killBoth    = "kill both"    // kill -9 of segno, then of the agent; the client returns
	killTool    = "kill tool"    // kill -9 of the agent's tool
	cancel      = "cancel"       // session/cancel
	queue       = "queue"        // sends another prompt at once
	stall       = "stall"        // the client reads nothing for some time
	stallCancel = "stall+cancel" // the same, and the client cancels meanwhile
	reload      = "reload"       // session/load or resume of the open session
	closing     = "close"        // session/close, then load or resume
	fork        = "fork"         // session/fork, which makes another conversation
	undo        = "undo"         // the client undoes the newest turns, if they had no fault
	undoAside   = "undo aside"   // the same, by the segno command
	redo        = "redo"         // the client redoes its undo, or undoes and then redoes
	redoAside   = "redo aside"   // the same, by the segno command
	restore     = "restore"      // the client restores an older turn
	edit        = "edit"         // the client replaces an older prompt by another one
	userEdits   = "user edits"   // the user writes a file
	lockStore   = "lock store"   // another process holds the store's lock for some time
	fullStore   = "full store"   // the store's disk is full for some time
	housekeep   = "housekeep"    // segno gc and segno check
	freeze      = "freeze"       // SIGSTOP of the agent for some time
	loseSession = "lose session" // the agent's session files are deleted, and it is killed
	move        = "move"         // the directory is moved while no client is connected
	intrude     = "intrude"      // another client prompts the same session and closes its side
)

// personas are the kinds of agent, by their abilities and failures.
func personas() []acptest.Config {
	full := acptest.Full("")
	claude := full
	claude.Name, claude.Version, claude.Missing = "@agentclientprotocol/claude-agent-acp", "0.100.0", "claude-0.100"
	old := claude
	old.Version, old.Missing, old.ForkAt, old.Keyed = "0.49.0", "claude-0.49", false, true
	codex := full
	codex.Name, codex.Version, codex.Missing, codex.ForkTurns = "@agentclientprotocol/codex-acp", "2.6.0", "codex", true
	opencode := full
	opencode.Name, opencode.Version, opencode.Missing, opencode.ForkReplay, opencode.Lazy = "OpenCode", "1.18.33", "opencode", true, false
	gemini := acptest.Config{Name: "gemini-cli", Version: "0.61.0", Missing: "gemini", Load: true, NullResults: true}
	return []acptest.Config{claude, old, codex, opencode, gemini, {Missing: "claude-0.100"}}
}

// planned makes the schedule of a seed.
func planned(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := personas()
	s := schedule{seed: seed, agent: kinds[r.IntN(len(kinds))]}
	s.agent.Title, s.agent.CRLF = one(r, 2), one(r, 8)
	if one(r, 4) {
		s.agent.Chunk = 1 + r.IntN(7)
	}
	s.agent.Ask, s.plan, s.hasty = one(r, 4), one(r, 3), one(r, 2)
	claude := strings.Contains(s.agent.Name, "claude")
	s.readable = claude && one(r, 2)
	s.adopted = s.agent.Load && claude == s.readable && one(r, 3)
	s.talks = append(s.talks, s.planTalk(r, 'a'))
	if one(r, 3) {
		s.talks = append(s.talks, s.planTalk(r, 'b'))
		s.together, s.apart = one(r, 2), one(r, 2)
	}
	for i := range 2 {
		s.forks = append(s.forks, s.planTalk(r, rune('x'+i))[:2])
	}
	// When a proxy is killed, only the agent's session has the effects of that moment. An
	// agent that has no session, or loses it, must ask for permission first.
	if s.has(killSegno, killBoth) && (!s.agent.Load || s.has(loseSession, move, undo, undoAside, redo, redoAside, restore, edit, fork)) {
		s.agent.Ask = true
	}
	return s
}

// has reports whether one of some deeds is in the schedule.
func (s *schedule) has(deeds ...string) bool {
	for _, t := range slices.Concat(slices.Concat(s.talks, s.forks)...) {
		for _, deed := range append(slices.Clone(t.before), t.deed) {
			if slices.Contains(deeds, deed) {
				return true
			}
		}
	}
	return false
}

func one(r *rand.Rand, in int) bool { return r.IntN(in) == 0 }

func (s *schedule) planTalk(r *rand.Rand, name rune) []plannedTurn {
	var turns []plannedTurn
	for i := range 2 + r.IntN(3) {
		turns = append(turns, s.planTurn(r, fmt.Sprintf("%d-%c-%d", s.seed, name, i), i > 0))
	}
	return turns
}

func (s *schedule) planTurn(r *rand.Rand, name string, later bool) plannedTurn {
	t := plannedTurn{back: 1 + r.IntN(3)}
	if later {
		for _, deed := range []string{loseSession, restart, killAgent, killBoth, move, intrude, reload, closing, fork,
			userEdits, undo, undoAside, redo, redoAside, restore, edit, housekeep} {
			if one(r, 10) {
				t.before = append(t.before, deed)
			}
		}
	}
	if one(r, 4) {
		t.steps = append(t.steps, s.fault(r))
	}
	for k := range 1 + r.IntN(3) {
		if one(r, 3) {
			t.steps = append(t.steps, acptest.Say(fmt.Sprintf("working on part %d of %s", k, name)))
		}
		if one(r, 8) {
			t.steps = append(t.steps, acptest.Step{Flood: 300})
		}
		t.steps = append(t.steps, s.tool(r, fmt.Sprintf("line-%s-%d", name, k)))
		if one(r, 8) {
			t.steps = append(t.steps, acptest.Step{Tool: "ledger", Line: fmt.Sprintf("line-%s-%d-%s", name, k, refused), File: "refused.txt", Ask: true})
		}
		if one(r, 5) {
			t.steps = append(t.steps, s.fault(r))
		}
	}
	t.steps = append(t.steps, acptest.Say(name+" is done"))
	if one(r, 3) {
		t.deed = []string{cancel, killSegno, killAgent, killBoth, killTool, restart, queue, stall, stallCancel, housekeep, freeze,
			lockStore, fullStore}[r.IntN(13)]
		t.after = r.IntN(3 * len(t.steps))
	}
	return t
}

// refused marks the lines of calls that the client refuses.
const refused = "refused"

// tool returns a tool call, during which the agent may die.
func (s *schedule) tool(r *rand.Rand, line string) acptest.Step {
	do := acptest.Do(line)
	do.File = strings.Split(line, "-")[2] + ".txt" // of the conversation
	do.Child = one(r, 5)
	if one(r, 5) {
		do.Strike, do.Times = []string{"intent", "effect", "recorded", "result"}[r.IntN(4)], 1
		do.How = []string{"kill", "exit", "drop", "child"}[r.IntN(4)]
		if do.How == "child" {
			do.Strike = []string{"intent", "effect"}[r.IntN(2)]
		}
	}
	return do
}

// fault returns a step with a fault that happens once or a few times.
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

// row returns a failure of this kind of agent.
func (s *schedule) row(r *rand.Rand) string {
	rows := []string{"claude.rate_limit", "claude.overload", "claude.key", "claude.auth", "claude.no_result", "claude.gone", "claude.ended"}
	if strings.Contains(s.agent.Name, "codex") {
		rows = []string{"codex.rate_limit", "codex.overload", "codex.drop", "codex.usage", "codex.auth", "codex.killed"}
	}
	return rows[r.IntN(len(rows))]
}

// String returns a readable form of the schedule.
func (s schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: agent %q %s load=%v resume=%v ask=%v chunk=%d together=%v apart=%v plan=%v hasty=%v readable=%v adopted=%v\n", s.seed,
		s.agent.Name, s.agent.Version, s.agent.Load, s.agent.Resume, s.agent.Ask, s.agent.Chunk, s.together, s.apart, s.plan, s.hasty, s.readable, s.adopted)
	show := func(first rune, talks [][]plannedTurn) {
		for n, turns := range talks {
			for i, t := range turns {
				fmt.Fprintf(&b, "  %c%d: before %q (%d turns); %q after %d messages; %s\n", first+rune(n), i, t.before, t.back, t.deed, t.after, acptest.Directive(t.steps...))
			}
		}
	}
	show('a', s.talks)
	if s.has(fork) {
		show('x', s.forks)
	}
	return b.String()
}
