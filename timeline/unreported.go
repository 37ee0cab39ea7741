package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// resultReader is the ability of a [segno.Transcript] to find the results of calls that hooks did not report. Codex runs no hook after a
// call that failed, that the user refused or that an interruption ended, and none after a command that is a patch.
type resultReader interface {
	// UnreportedResults returns those results of the calls with these ids that the session has, oldest first.
	UnreportedResults(ctx context.Context, src segno.Source, calls map[string]bool) ([]segno.Entry, error)
}

// withUnreportedResults adds the results that hooks did not report to the entries of a turn that hooks record. Without them, such calls
// would run until the end of the turn.
func (tx *txn) withUnreportedResults(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	agent, ok := tx.Transcripts[t.Agent].(resultReader)
	if !ok || t.Owner != "" {
		return entries
	}
	open := unendedCalls(entries)
	missing := make(map[string]bool, len(open))
	for id := range open {
		missing[id] = true
	}
	for _, src := range t.sources(entries) {
		if len(missing) == 0 {
			break
		}
		results, err := agent.UnreportedResults(ctx, src, missing)
		if err != nil {
			continue // without its session, the end of a call is not known
		}
		for _, e := range results {
			if missing[e.ID] {
				delete(missing, e.ID)
				e.Session, e.Name = open[e.ID].Session, open[e.ID].Name
				entries = insertByTime(entries, e)
			}
		}
	}
	return entries
}

// unendedCalls returns the beginnings of the calls without a result, by their ids.
func unendedCalls(entries []segno.Entry) map[string]segno.Entry {
	ended, open := endedCalls(entries), map[string]segno.Entry{}
	for _, e := range entries {
		if e.Kind == segno.EntryIntent && e.ID != "" && !ended[e.ID] {
			open[e.ID] = e
		}
	}
	return open
}

// sources returns the session of a turn and those of its subagents.
func (t *OpenTurn) sources(entries []segno.Entry) []segno.Source {
	all := []segno.Source{t.Source}
	for _, e := range entries {
		if e.Kind == segno.EntryNote && e.Name == NoteTaskBegin {
			all = append(all, segno.Source{Session: segno.SessionID(e.ID), Dir: t.Source.Dir})
		}
	}
	return all
}

// insertByTime inserts an entry behind the last one that is not later.
func insertByTime(entries []segno.Entry, e segno.Entry) []segno.Entry {
	at := len(entries)
	for at > 0 && entries[at-1].Time.After(e.Time) {
		at--
	}
	return slices.Insert(slices.Clone(entries), at, e)
}
