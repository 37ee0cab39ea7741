package search

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/transcript"
)

// Session is a session of an agent on this machine.
type Session struct {
	Agent string
	segno.Source
	Stamp    string // the state of its file
	Modified time.Time
}

// SessionTurn is a turn of a session.
type SessionTurn struct {
	Prompt string
	Time   time.Time
	Text   Text
}

// UpdateSessions adds the sessions that the index lacks in their present state, until a deadline. The sources of all other
// sessions are hidden from now on. read is called for each session to add; [ReadSession] implements it.
func (x *Index) UpdateSessions(ctx context.Context, all []Session, read func(context.Context, *Session) ([]SessionTurn, error), deadline time.Time, progress func(done, total int64)) (f Freshness, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sessions = map[string]string{}
	for i := range all {
		s := all[i].asSource()
		x.sessions[s.sessionKey()] = s.Stamp
	}
	defer x.markSources()
	unlock, err := x.lock(ctx)
	isBusy := segno.KindOf(err) == segno.KindBusy // another process writes the index, or removes it
	switch {
	case isBusy:
		deadline = time.Time{}
	case err != nil:
		return f, err
	default:
		defer unlock()
		x.readDir() // another process may have added segments, or removed those of an erased thread
	}
	has := x.keepSessions()
	u := &update{index: x}
	defer u.end()
	for i := range all {
		s := all[i].asSource()
		switch {
		case has[s.sessionKey()]:
			continue
		case time.Now().After(deadline):
			f.PendingSessions++
			continue
		}
		read, err := read(ctx, &all[i])
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		if err != nil {
			f.DamagedSessions++
			continue
		}
		s.From, s.To = 1, int64(len(read))
		u.begin(s)
		for n := range read {
			t := &read[n]
			u.builder.add(Unit{Seq: int64(n + 1), Time: t.Time.Unix()}, &t.Text)
		}
		if progress != nil {
			progress(int64(i+1), int64(len(all)))
		}
		if u.builder.bytes >= batchBytes {
			if err := u.flush(); err != nil {
				return f, err
			}
		}
	}
	if err := u.flush(); err != nil || isBusy {
		return f, err
	}
	return f, x.mergeSmall()
}

// keepSessions drops the segments that have only sessions that do not exist in this state. It returns the keys of the others.
func (x *Index) keepSessions() (has map[string]bool) {
	has = map[string]bool{}
	for _, s := range slices.Clone(x.segs) {
		isUseful := false
		for i := range s.sources {
			if o := &s.sources[i]; !o.isSession() {
				isUseful = true
			} else if x.isPresent(o) {
				isUseful, has[o.sessionKey()] = true, true
			}
		}
		if !isUseful {
			x.drop(s)
		}
	}
	return has
}

func (s *Session) asSource() Source {
	return Source{Agent: s.Agent, Session: s.Source.Session, Path: s.Source.Path, Stamp: s.Stamp}
}

// ReadSession reads the turns of a session. A compaction hides what is before it from the model, so ReadSession reads the
// session as it was before each compaction, too.
func ReadSession(ctx context.Context, t segno.Transcript, s *Session) ([]SessionTurn, error) {
	got, err := t.Capture(ctx, s.Source, nil, discard{}, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	all := make([]SessionTurn, len(got.Earlier), len(got.Earlier)+1)
	for i, e := range got.Earlier {
		all[i] = turnOfEntries(e.Prompt, e.Entries, s.Modified)
	}
	reader, ok := t.(transcript.ConversationReader)
	if !ok || got.Position.Leaf == "" {
		if got.Text != "" {
			all = append(all, turnOfEntries(got.Text, nil, s.Modified))
		}
		return all, nil
	}
	var known []SessionTurn // the newest turns
	for at := got.Position; ; {
		talk, err := reader.ReadConversation(ctx, at, "", nil)
		if err != nil {
			if len(known) == 0 {
				return nil, err
			}
			break // the earlier turns have their prompts alone
		}
		var older []SessionTurn
		for _, t := range turns.OfMessages(talk.Messages) {
			older = append(older, sessionTurn(t, s.Modified))
		}
		known = append(older, known...)
		rest := len(all) + 1 - len(known)
		if len(older) == 0 || rest <= 0 {
			break
		}
		at = got.Earlier[rest-1].Position
	}
	return append(all[:max(0, len(all)+1-len(known))], known...), nil
}

func turnOfEntries(prompt string, entries []segno.Entry, at time.Time) SessionTurn {
	c := segno.Checkpoint{Prompt: prompt}
	return sessionTurn(turns.Read([]segno.Node{{Entries: entries}}, &c), at)
}

// sessionTurn returns a turn of a session whose file changed at a time.
func sessionTurn(read *turns.Turn, at time.Time) SessionTurn {
	t := SessionTurn{Prompt: read.Prompt, Time: at}
	if !read.Start.IsZero() {
		t.Time = read.Start
	}
	t.Text.addTurn(read)
	return t
}

// discard is a batch that stores nothing.
type discard struct{}

func (discard) Put(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}
func (discard) Has(context.Context, segno.Hash) (bool, error) { return false, nil }
func (discard) Stage(context.Context) (segno.Staged, error)   { return segno.Staged{}, nil }
func (discard) Close() error                                  { return nil }
