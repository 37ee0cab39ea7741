package proxy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// isDeleted reports whether the file of the link's session is gone. An agent that has the session
// loaded may not notice: Codex continues to write to the deleted file, and Claude Code begins a new
// one without the earlier turns.
func (st threadState) isDeleted() bool {
	paths := []string{st.link.Path}
	if p := st.position(); p != nil {
		paths = append(paths, p.Path)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" })
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// isUnprompted reports whether the link's session was cut from a transcript and has had no turn since.
// It then has only the turns of the transcript.
func (st threadState) isUnprompted() bool {
	return st.link != nil && st.link.Position != nil && st.position() == st.link.Position
}

// turnsBehind returns the newest turns that the transcript lacks. Such a turn has the position of
// the turn before it, because the transcript was deleted or could not be read when the turn ended.
func (l *sessionStore) turnsBehind(ctx context.Context, turn *segno.Checkpoint) ([]segno.Node, error) {
	cuts := map[segno.SessionID]int64{}
	for link, err := range l.proxy.store.Chain(ctx, l.record.Thread) {
		if err != nil {
			return nil, err
		}
		if link.Position != nil {
			cuts[link.Session] = link.Position.Offset
		}
	}
	for last := 8; ; last *= 8 {
		line, err := l.proxy.store.Load(ctx, turn.ID, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		from, isFound := firstBehind(line.Commits, cuts)
		if isFound || len(line.Commits) < last {
			return line.Commits[from:], nil
		}
	}
}

// firstBehind returns the index of the first of the newest commits whose turns the transcript
// lacks. isFound is false if older commits may have such turns, too. cuts has the lengths of the
// sessions that were cut.
func firstBehind(line []segno.Node, cuts map[segno.SessionID]int64) (from int, isFound bool) {
	from = len(line)
	newest, at := (*segno.Checkpoint)(nil), 0
	for i, n := range slices.Backward(line) {
		c := n.Checkpoint
		switch {
		case c == nil || c.Kind != segno.CheckpointTurn || c.Session == nil:
			continue
		case newest == nil, c.Turn == newest.Turn: // an amended turn is the same turn
		case hasRecords(newest.Session, c.Session, cuts):
			return from, true
		default:
			from = at
		}
		newest, at = c, i
	}
	return from, false
}

// hasRecords reports whether the transcript has records of the turn that ended at p. before is the
// position of the turn before it. A compaction has records, but no prompt and therefore no leaf.
func hasRecords(p, before *segno.Position, cuts map[segno.SessionID]int64) bool {
	began := cuts[p.Session]
	if p.Session == before.Session {
		began = before.Offset
	}
	return p.Leaf != before.Leaf || p.Offset > began
}

// prefaceUnseen adds the turns that the agent's session may lack to the preface. If the session has only
// the turns of the transcript, these are the turns that the transcript lacks. The preface also gets the
// actions of an interrupted newest turn, because the agent may have ended before it wrote them to its
// session. An agent that the proxy asked to end a turn because the client left records that as the
// user's wish; therefore such a turn is added, too.
func (s *session) prefaceUnseen(ctx context.Context, st threadState, isFromTranscript bool) error {
	if st.turn == nil || s.proxy.agent.identity().isSegno() {
		return nil
	}
	var commits []segno.Node
	var err error
	if isFromTranscript {
		if commits, err = s.turnsBehind(ctx, st.turn); err != nil {
			return err
		}
	}
	if len(commits) == 0 && st.turn.Interrupted {
		if commits, err = s.entriesOf(ctx, st.turn); err != nil {
			return err
		}
		commits = slices.DeleteFunc(commits, func(n segno.Node) bool {
			return endNoteOf(n.Entries).Stop != stopDisconnected &&
				!slices.ContainsFunc(n.Entries, func(e segno.Entry) bool { return e.Kind == segno.EntryIntent })
		})
	}
	if len(commits) > 0 {
		gap := &preamble.Builder{Dir: s.record.Dir}
		for _, n := range commits {
			gap.Add(n)
		}
		s.preface = append(s.preface, gap.Text(preamble.Options{}))
	}
	return nil
}

// restoreDeleted writes the session's deleted file back, so that the agent continues the session
// natively. The caller makes sure that the agent does not have the session in memory. If the transcript
// lacks turns, restoreDeleted does nothing: a session under a new id then gets a summary of these
// turns.
func (s *session) restoreDeleted(ctx context.Context, st *threadState) error {
	if st.turn == nil || !st.isDeleted() {
		return nil
	}
	if behind, err := s.turnsBehind(ctx, st.turn); err != nil || len(behind) > 0 {
		return err
	}
	tl, err := s.timeline(ctx)
	if err != nil {
		return err
	}
	link, err := tl.RestoreSession(ctx, *st.link, st.at.ID)
	if isCancelled(err) {
		return err
	}
	if err != nil {
		s.logf("the session cannot be written back: %v", err) // the recovery ladder has other steps
	}
	if err != nil || link == nil {
		return nil
	}
	s.logf("session %s was deleted; it is written back", link.Session)
	st.link = link
	return s.join(ctx, *link)
}
