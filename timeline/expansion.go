package timeline

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// promptExpander is the ability of a [segno.Transcript] to show when the agent expanded a prompt. Claude Code runs the commands in the text of
// a slash command or a skill before it sends the text to the model, and calls no hook for them.
type promptExpander interface {
	// ExpandedAt returns the time at which the agent recorded the prompt of a turn, after it ran the commands in the text of a slash command.
	// The time is zero if the prompt is another one. found is false if the agent has not recorded the prompt: it may still run commands.
	ExpandedAt(ctx context.Context, src segno.Source, key segno.TurnKey) (at time.Time, found bool, err error)
	// TypedCommand returns the command with which the user began a turn, and its times. They are zero if a prompt began the turn.
	TypedCommand(ctx context.Context, src segno.Source, key segno.TurnKey) (command string, from, to time.Time, err error)
	// RunsCommandsFirst reports whether the agent runs commands at the beginning of a call, before a subagent makes its first call.
	RunsCommandsFirst(tool string, input []byte) bool
}

// expansions returns a call for each time in which the agent may have run commands without a hook: those of a slash command or a skill, a
// command of the user, or those that make the git worktree of a subagent. entries are those of the turn. isLate is set
// if the turn ended without an event.
func (tx *txn) expansions(ctx context.Context, t *OpenTurn, entries []segno.Entry, isLate bool) (calls []ownership.Call) {
	agent, ok := tx.Transcripts[t.Agent].(promptExpander)
	if !ok || t.Owner != "" {
		return nil
	}
	ran := func(from, to time.Time) {
		if to.After(from) {
			calls = append(calls, ownership.Call{From: from, To: to, Next: to})
		}
	}
	if strings.HasPrefix(t.Prompt, typedCommand) {
		if _, from, to, err := agent.TypedCommand(ctx, t.Source, t.Key); err == nil {
			ran(from, to)
		}
	}
	if strings.HasPrefix(t.Prompt, "/") {
		switch at, found, _ := agent.ExpandedAt(ctx, t.Source, t.Key); { // a session that cannot be read shows no prompt
		case found:
			ran(t.Start, at)
		case isLate && !tx.isRefused(ctx, *t): // the user interrupted the commands, or the agent was killed
			calls = append(calls, ownership.Call{From: t.Start, To: t.Start, Next: t.Start, Lost: true})
		}
	}
	for i, e := range entries {
		if e.Kind != segno.EntryIntent || !agent.RunsCommandsFirst(e.Name, e.Body) {
			continue
		}
		next := func(x segno.Entry) bool {
			return x.Kind == segno.EntryIntent && x.ID != e.ID || x.Kind == segno.EntryResult && x.ID == e.ID
		}
		if n := slices.IndexFunc(entries[i+1:], next); n >= 0 {
			ran(e.Time, entries[i+1+n].Time)
		}
	}
	return calls
}

// typedCommand begins a prompt that is a command of the user.
const typedCommand = "! "

// unreported makes a turn that no event began. The time of its beginning is known only if a command of the user began it.
func (tx *txn) unreported(ctx context.Context, p Prompt) (OpenTurn, error) {
	thread, err := tx.threadOf(ctx, p.Source.Session)
	if err != nil {
		return OpenTurn{}, err
	}
	before, at, err := tx.knownState(ctx)
	t := OpenTurn{Key: p.Key, Agent: p.Agent, Source: p.Source, Workspace: tx.Workspace.ID(), Thread: thread, Before: before, Process: p.Process}
	if err == nil {
		err = tx.beginAtTypedCommand(ctx, &t, at)
	}
	return t, err
}

// beginAtTypedCommand sets the beginning of a turn that was not reported, if the user began it with a command in the agent's terminal. Claude
// Code runs such a command itself, calls no hook for it, and then sends the output to the model. before is the time of the state before the turn.
func (tx *txn) beginAtTypedCommand(ctx context.Context, t *OpenTurn, before time.Time) error {
	agent, ok := tx.Transcripts[t.Agent].(promptExpander)
	if !ok || before.IsZero() {
		return nil
	}
	if done, err := tx.recordedEnd(ctx, *t); err != nil || done != nil {
		return err
	}
	command, from, _, err := agent.TypedCommand(ctx, t.Source, t.Key)
	if err == nil && !from.IsZero() { // without its session, the beginning is not known
		t.Start, t.BeforeTime, t.Prompt = from, before, typedCommand+command
		if before.After(from) { // the user made a move after the command
			t.Start = before
		}
	}
	return nil
}

// mayExpand reports whether a recorded turn may have changes of commands that no entry shows.
func (tx *txn) mayExpand(turn *segno.Checkpoint, entries []segno.Entry) bool {
	return tx.mayExpandPrompt(turn) || slices.ContainsFunc(entries, func(e segno.Entry) bool {
		return e.Kind == segno.EntryIntent && tx.runsCommandsFirst(turn, e.Name, e.Body)
	})
}

// mayExpandPrompt is mayExpand for commands before the first call of the turn.
func (tx *txn) mayExpandPrompt(turn *segno.Checkpoint) bool {
	_, ok := tx.Transcripts[turn.Agent].(promptExpander)
	return ok && (strings.HasPrefix(turn.Prompt, "/") || strings.HasPrefix(turn.Prompt, typedCommand))
}

// runsCommandsFirst is mayExpand for commands at the beginning of a call.
func (tx *txn) runsCommandsFirst(turn *segno.Checkpoint, tool string, input []byte) bool {
	agent, ok := tx.Transcripts[turn.Agent].(promptExpander)
	return ok && agent.RunsCommandsFirst(tool, input)
}
