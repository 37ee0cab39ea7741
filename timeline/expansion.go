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
	// ExpandedAt returns when the agent had replaced the prompt of a turn by the text of a slash command, or zero.
	ExpandedAt(ctx context.Context, src segno.Source, key segno.TurnKey) (time.Time, error)
	// LoadsSkill reports whether a call of a tool loads the text of a skill.
	LoadsSkill(tool string) bool
}

// expansions returns a call for each time in which the agent may have run the commands of a slash command or a skill. entries are those of the
// turn.
func (tx *txn) expansions(ctx context.Context, t *OpenTurn, entries []segno.Entry) (calls []ownership.Call) {
	agent, ok := tx.Transcripts[t.Agent].(promptExpander)
	if !ok || t.Owner != "" {
		return nil
	}
	ran := func(from, to time.Time) {
		if to.After(from) {
			calls = append(calls, ownership.Call{From: from, To: to, Next: to})
		}
	}
	if strings.HasPrefix(t.Prompt, "/") {
		if at, err := agent.ExpandedAt(ctx, t.Source, t.Key); err == nil { // without its session, the time is not known
			ran(t.Start, at)
		}
	}
	for i, e := range entries {
		if e.Kind != segno.EntryIntent || !agent.LoadsSkill(e.Name) {
			continue
		}
		// A skill may start a subagent, whose calls follow.
		next := func(x segno.Entry) bool {
			return x.Kind == segno.EntryIntent && x.ID != e.ID || x.Kind == segno.EntryResult && x.ID == e.ID
		}
		if n := slices.IndexFunc(entries[i+1:], next); n >= 0 {
			ran(e.Time, entries[i+1+n].Time)
		}
	}
	return calls
}
