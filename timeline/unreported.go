package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// resultReader is the ability of a [segno.Transcript] to find the results of calls that hooks did not report. Codex runs no hook after a
// call that failed, that the user refused or that an interruption ended, and none after a command that is a patch. It runs one after a
// command that it left running only if the model waits for the end.
type resultReader interface {
	// UnreportedResults returns those results of the calls with these ids that the session has, oldest first. The result of a call whose
	// command still runs names the command as a background task.
	UnreportedResults(ctx context.Context, src segno.Source, calls map[string]bool) ([]segno.Entry, error)
}

// callReader is the ability of a [segno.Transcript] to find calls that hooks did not report. Codex runs no hook for a call that types into
// a command which an earlier call left running.
type callReader interface {
	// UnreportedCalls returns such calls of a turn, oldest first, without their results. The time of a call may be too early, but not before
	// the result of an earlier call.
	UnreportedCalls(ctx context.Context, src segno.Source, key segno.TurnKey) ([]segno.Entry, error)
	// EarlierCalls returns those of the calls with these ids that other turns made. Codex runs the hook after such a call when a later
	// turn waits for the end of its command.
	EarlierCalls(ctx context.Context, src segno.Source, key segno.TurnKey, calls map[string]bool) (map[string]bool, error)
}

// patchReader is the ability of a [segno.Transcript] to find the patches that calls applied. Codex does not report them over ACP: it may
// show a part of their changes, or none.
type patchReader interface {
	// Patches returns the patches of the calls with these ids that the session has, by id.
	Patches(ctx context.Context, src segno.Source, calls map[string]bool) (map[string]string, error)
}

// withUnreported adds to the entries of a turn what the agent did not report about its calls and its session shows.
func (tl *Timeline) withUnreported(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	if t.Owner != "" {
		return tl.withCutCalls(ctx, t, tl.withPatches(ctx, t, entries))
	}
	return tl.withUnreportedResults(ctx, t, entries)
}

// withPatches replaces the beginnings of calls without an input in a turn that the proxy records, if the session shows that the calls
// applied patches. Without it, segno does not know which files such a call changed.
func (tl *Timeline) withPatches(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	agent, ok := tl.Transcripts[t.Agent].(patchReader)
	calls := map[string]bool{}
	for _, e := range entries {
		if e.Kind == segno.EntryIntent && e.ID != "" && agents.Tool(e.Name).ChangesFiles() && turns.ReadIntent(e.Body).Input == nil {
			calls[e.ID] = true
		}
	}
	if !ok || len(calls) == 0 {
		return entries
	}
	patches, err := agent.Patches(ctx, t.Source, calls)
	if err != nil {
		return entries // without its session, the files of a call are not known
	}
	entries = slices.Clone(entries)
	for i, e := range entries {
		if patch := patches[e.ID]; e.Kind == segno.EntryIntent && calls[e.ID] && patch != "" {
			entries[i].Name, entries[i].Body = turns.WithPatch(e.Body, patch)
		}
	}
	return entries
}

// cutCallReader is the ability of a [segno.Transcript] to find calls that the end of the agent cut off. Codex reports a call over ACP some time
// after it began, so it may be killed between.
type cutCallReader interface {
	// CutCalls returns the beginnings of the calls without a result that a session has since a time, oldest first.
	CutCalls(ctx context.Context, src segno.Source, since time.Time) ([]segno.Entry, error)
}

// withCutCalls adds calls that the agent did not report before its end to the entries of a turn that the proxy records.
func (tl *Timeline) withCutCalls(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	agent, ok := tl.Transcripts[t.Agent].(cutCallReader)
	if !ok {
		return entries
	}
	known, sessions := map[string]bool{}, []segno.SessionID{t.Source.Session}
	for _, e := range entries {
		known[e.ID] = known[e.ID] || e.Kind == segno.EntryIntent
		if e.Session != "" && !slices.Contains(sessions, e.Session) {
			sessions = append(sessions, e.Session)
		}
	}
	for _, session := range sessions {
		src := t.Source
		if session != src.Session {
			src = segno.Source{Session: session, Dir: src.Dir}
		}
		calls, err := agent.CutCalls(ctx, src, t.Start)
		if err != nil {
			continue // without its session, such a call is not known
		}
		for _, e := range calls {
			if !known[e.ID] && agents.Tool(e.Name).ChangesFiles() {
				known[e.ID] = true
				entries = insertByTime(entries, e)
			}
		}
	}
	return entries
}

// withUnreportedResults adds the calls and the results that hooks did not report to the entries of a turn that hooks record. Without a
// result, a call would run until the end of the turn.
func (tl *Timeline) withUnreportedResults(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	agent, ok := tl.Transcripts[t.Agent].(resultReader)
	if !ok || t.Owner != "" {
		return entries
	}
	entries = tl.withoutEarlierCalls(ctx, t, entries)
	if agent, ok := agent.(callReader); ok {
		calls, err := agent.UnreportedCalls(ctx, t.Source, cmp.Or(t.EventKey, t.Key))
		for _, e := range calls {
			isSame := func(x segno.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID }
			if err == nil && !slices.ContainsFunc(entries, isSame) {
				entries = insertByTime(entries, e)
			}
		}
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

// withoutEarlierCalls drops the results of calls that earlier turns of the session made.
func (tl *Timeline) withoutEarlierCalls(ctx context.Context, t *OpenTurn, entries []segno.Entry) []segno.Entry {
	agent, ok := tl.Transcripts[t.Agent].(callReader)
	if !ok || t.Owner != "" {
		return entries
	}
	alone := endedCalls(entries)
	for _, e := range entries {
		if e.Kind == segno.EntryIntent {
			delete(alone, e.ID)
		}
	}
	if len(alone) == 0 {
		return entries
	}
	earlier, err := agent.EarlierCalls(ctx, t.Source, cmp.Or(t.EventKey, t.Key), alone)
	if err != nil {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e segno.Entry) bool { return e.Kind == segno.EntryResult && earlier[e.ID] })
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

// addRunningCommands adds the commands that calls of the turn left running to its background tasks, if the session of the turn shows such
// commands and not the event at its end.
func (tx *txn) addRunningCommands(ctx context.Context, w *turnEnd) error {
	if _, ok := tx.Transcripts[w.turn.Agent].(resultReader); !ok || w.turn.Owner != "" || !w.Ended.IsZero() || tx.isGone(w.turn) {
		return nil
	}
	noted, _, err := tx.Spool.Entries(ctx, w.turn.Key)
	if err != nil {
		return err
	}
	for _, task := range UnfinishedTasks(tx.withUnreportedResults(ctx, &w.turn, noted)) {
		isSame := func(other Task) bool { return other.ID == task.ID }
		if task.Kind == TaskShell && !slices.ContainsFunc(w.Tasks, isSame) {
			w.Tasks = append(w.Tasks, task)
		}
	}
	w.turn.Tasks = w.Tasks
	return nil
}

// RunningTasks returns the tasks of a turn that have not ended, according to its entries, its session and its process.
func (tl *Timeline) RunningTasks(ctx context.Context, t *OpenTurn) ([]Task, error) {
	if tl.isGone(*t) {
		return nil, nil
	}
	entries, _, err := tl.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	ended := tl.endedCommands(ctx, t, entries)
	return t.RunningTasks(append(slices.Clone(entries), ended...)), nil
}

// noteEndedCommands records the ends of commands in the background that only the session of a turn shows.
func (tx *txn) noteEndedCommands(ctx context.Context, t *OpenTurn) error {
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	for _, e := range tx.endedCommands(ctx, t, entries) {
		if err := tx.AppendEntry(ctx, t.Key, e); err != nil {
			return err
		}
	}
	return nil
}

// endedCommands returns notes that commands in the background ended, oldest first, for those whose ends the session of a turn shows and
// its entries do not.
func (tl *Timeline) endedCommands(ctx context.Context, t *OpenTurn, entries []segno.Entry) (ends []segno.Entry) {
	started := map[string]string{} // the tasks by their calls
	for _, task := range t.RunningTasks(entries) {
		if task.Kind == TaskShell && task.Call != "" {
			started[task.Call] = task.ID
		}
	}
	if len(started) == 0 {
		return nil
	}
	for _, e := range tl.withUnreportedResults(ctx, t, entries) {
		if task := started[e.ID]; e.Kind == segno.EntryResult && task != "" && ownership.StartedTask(e.Body) != task {
			ends = append(ends, segno.Entry{Kind: segno.EntryNote, Session: e.Session, Time: e.Time, ID: task, Name: NoteTask,
				Body: quote("command " + task + " ended, or a later call typed into it")})
		}
	}
	return ends
}
