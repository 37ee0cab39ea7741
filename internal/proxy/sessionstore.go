package proxy

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/timeline"
)

// sessionStore is one session in the store and in the session index: its record, and the lease on
// its thread. It has no access to the client or the agent's process.
type sessionStore struct {
	proxy  *proxy
	record sessionRecord
	stored segno.ThreadID // the thread of the record that this process last read or wrote
	lease  segno.Lease    // while a turn runs

	prefaced   bool // a turn began with Continued.Preface
	inTurn     bool // a turn is under way, which opens its timeline once
	unrecorded bool // that turn could not be recorded, and the user chose to continue
	opened     *timeline.Timeline
	openedRoot os.FileInfo // the root of opened's workspace at the time of opening

	story      *preamble.Builder // the thread up to storyAt; nil if it must be read again
	storyAt    segno.CommitID
	forkedFrom string        // for a fork: the directory to which its conversation so far refers
	history    *replayReader // the turns from before segno, until there is a thread that records them

	replaced map[segno.SessionID]bool // agent sessions that were replaced within a turn: they may contain half of it
	unusable map[segno.SessionID]bool // agent sessions that the agent lists but does not have when prompted
}

// load reads the session's record, once. It reads the index lazily, because most messages of a
// session need only the session's ids. If the index has no record, the session is one of the
// agent's. load fails if the record is unreadable, because a later save would overwrite it.
func (l *sessionStore) load(id segno.SessionID) error {
	if l.record.Client != "" {
		return nil
	}
	r, err := l.proxy.index.read(id)
	if segno.KindOf(err) == segno.KindNotFound {
		r, err = l.foreignRecord(id)
	}
	if err != nil {
		return err
	}
	r.Agent = l.proxy.agent.name() // the client may have changed it
	l.record, l.stored = r, r.Thread
	return nil
}

// foreignRecord is the record of a session that the index does not have.
func (l *sessionStore) foreignRecord(id segno.SessionID) (r sessionRecord, err error) {
	if c := l.proxy.Continued; c != nil && id == segno.SessionID(c.Thread) {
		return sessionRecord{Client: id, Thread: c.Thread, Opened: l.proxy.Place.Now()}, nil
	}
	r = sessionRecord{Client: id, Upstream: id, Opened: l.proxy.Place.Now(), Foreign: true}
	t, err := find(l.proxy.store.Threads(l.proxy.ctx, segno.ThreadQuery{Session: id, Limit: 1}), nil)
	if err != nil {
		return r, err
	}
	if t != nil {
		r.Thread, r.Title = t.ID, t.Title
	}
	r.Dir, err = l.proxy.store.SessionDir(l.proxy.ctx, id)
	return r, err
}

// save makes the session's record durable.
func (l *sessionStore) save() error { return l.replaceRecord(l.record) }

// replaceRecord replaces the session's record once the new one is durable. After an error the session has the old record, as the
// next run would have. Another segno may have the same session open, and may have given the client's id another thread since. Then the
// id keeps that thread, unless next gives it another one, too. No thread loses its last record.
func (l *sessionStore) replaceRecord(next sessionRecord) error {
	unlock, err := l.proxy.index.lock(l.proxy.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := l.proxy.index.read(next.Client)
	if segno.KindOf(err) == segno.KindNotFound {
		now, err = l.record, nil
		now.Thread = l.stored
	}
	if err != nil {
		return err
	}
	if now.Thread != l.stored && next.Thread == l.stored { // next describes the thread that the id had before
		now.Used, now.Deleted = next.Used, next.Deleted
		if err := l.proxy.index.write(now); err != nil {
			return err
		}
		l.record = next
		return nil
	}
	if now.Thread != "" && now.Thread != next.Thread {
		if err := l.keepRecord(now); err != nil {
			return err
		}
	}
	if err := l.proxy.index.write(next); err != nil {
		return err
	}
	l.record, l.stored = next, next.Thread
	return nil
}

// keepRecord keeps a record under another client id if no other record names its thread, because clients reach threads only by ids.
func (l *sessionStore) keepRecord(r sessionRecord) error {
	records, err := l.proxy.index.all()
	if err != nil || slices.ContainsFunc(records, func(o sessionRecord) bool {
		return o.Thread == r.Thread && o.Client != r.Client && !o.Deleted
	}) {
		return err
	}
	head, err := l.proxy.store.Head(l.proxy.ctx, r.Thread)
	if err != nil {
		return err
	}
	r.Client, r.Upstream = segno.SessionID(segno.NewID()), head.Link.Session
	return l.proxy.index.write(r)
}

// touch records that the session was used. An error only affects the next run, and is
// logged.
func (l *sessionStore) touch() {
	l.record.Used = l.proxy.Place.Now()
	l.proxy.logErr(l.save())
}

// endTurn forgets the timeline of the turn and that the turn was not recorded.
func (l *sessionStore) endTurn() {
	l.inTurn, l.unrecorded, l.opened, l.openedRoot = false, false, nil, nil
}

// timeline returns the timeline of the workspace at the session's directory. Within a turn
// it is opened once, or again if another directory has replaced the workspace's.
func (l *sessionStore) timeline(ctx context.Context) (*timeline.Timeline, error) {
	if l.openedRoot != nil {
		if now, err := os.Stat(l.opened.Workspace.Root()); err == nil && os.SameFile(l.openedRoot, now) {
			return l.opened.WithLease(l.lease), nil
		}
	}
	rec, err := l.proxy.store.RegisterRoot(ctx, l.record.Dir)
	if err != nil {
		return nil, err
	}
	tl, err := l.proxy.store.Timeline(rec, nil)
	if err != nil {
		return nil, err
	}
	if l.inTurn {
		l.opened = tl
		l.openedRoot, _ = os.Stat(tl.Workspace.Root()) // without it the next use opens it again
	}
	return tl.WithLease(l.lease), nil
}

// needsHistory reports whether the session may have turns that only the agent can show: the
// proxy did not make the session, and segno cannot read its transcript here.
func (l *sessionStore) needsHistory(ctx context.Context) bool {
	if l.record.Thread != "" || !l.record.Foreign || l.history != nil {
		return false
	}
	t := l.proxy.store.Transcripts()[l.record.Agent]
	if t == nil {
		return true
	}
	_, err := t.Find(ctx, l.record.Upstream)
	return err != nil
}

// canCut reports whether a checkpoint has a position at which its agent's transcript can be cut.
func (l *sessionStore) canCut(c *segno.Checkpoint) bool {
	p := c.Session
	return p != nil && p.Agent == l.record.Agent && p.Leaf != "" && l.proxy.store.Transcripts()[p.Agent] != nil
}

// openThread makes the session's thread, and records the turns that the agent replayed.
func (l *sessionStore) openThread(ctx context.Context, title string) error {
	tl, err := l.timeline(ctx)
	if err != nil {
		return err
	}
	incomplete := l.needsHistory(ctx)
	o := timeline.Adoption{Agent: l.record.Agent, Source: segno.Source{Session: l.record.Upstream, Dir: l.record.Dir},
		Title: title, Name: l.record.Name}
	if l.history != nil {
		o.Earlier = l.history.turns
	}
	if l.record.Thread, err = tl.AdoptSession(ctx, o); err != nil {
		return err
	}
	l.record.IncompleteHistory, l.history = incomplete, nil
	if l.record.Title == "" {
		l.record.Title = timeline.Title(title)
	}
	return l.save()
}

// setThread switches the session to another thread. incomplete is that thread's
// IncompleteHistory.
func (l *sessionStore) setThread(thread segno.ThreadID, title string, incomplete bool) error {
	next := l.record
	next.Thread, next.IncompleteHistory = thread, incomplete
	if title != "" {
		next.Title = title
	}
	if err := l.replaceRecord(next); err != nil {
		return err
	}
	l.story = nil
	return nil
}

// join records that the thread continues in a session of the agent. It ignores the
// cancellation of ctx: the agent already has the session, so the record must have it too.
func (l *sessionStore) join(ctx context.Context, link segno.Link) error {
	if l.unrecorded {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	tl, err := l.timeline(ctx)
	if err != nil {
		return err
	}
	if err := tl.JoinSession(ctx, l.record.Thread, link); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// joinExisting is join for a session of the thread's chain. It does nothing if the head is
// already in that session.
func (l *sessionStore) joinExisting(ctx context.Context, st threadState) error {
	if st.head.Link.Session == st.link.Session {
		return nil
	}
	link := *st.link
	link.Start, link.Reason, link.At = l.proxy.Place.Now(), string(segno.VerbSwitch), st.at.ID
	return l.join(ctx, link)
}

// newLink returns a link to a session that begins at the checkpoint at.
func (l *sessionStore) newLink(up segno.SessionID, reason string, fidelity segno.Fidelity, at segno.CommitID) segno.Link {
	return segno.Link{Agent: l.record.Agent, Session: up, Dir: l.record.Dir, Start: l.proxy.Place.Now(),
		Reason: reason, Fidelity: fidelity, At: at}
}

// closeAbandoned ends the turns that an earlier run left open, as interrupted. It first kills
// the agents of such runs: they would continue those turns in sessions that this process is
// about to continue.
func (l *sessionStore) closeAbandoned(ctx context.Context) error {
	tl, err := l.timeline(ctx)
	if err != nil {
		return err
	}
	turns, err := tl.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Owner != "" && ownerGone(t.Owner) && t.Group > 1 && groupLives(t.Group, t.GroupStart) {
			l.proxy.logf("killing the agent of a run that has ended (process group %d)", t.Group)
			killGroup(t.Group)
			waitGroup(ctx, t.Group)
		}
	}
	return tl.CloseAbandonedTurns(ctx)
}

// readStory extends the story, the source of preambles, to a commit. A preamble must not take
// long to make; therefore readStory runs at the end of each turn. It reads only the commits
// after the story's end, because a turn may have thousands of entries. If the story's end is
// not among the last commits of the line, the thread has moved, and readStory reads everything
// again.
func (l *sessionStore) readStory(ctx context.Context, head segno.CommitID) error {
	if l.story != nil && l.storyAt == head {
		return nil
	}
	window := segno.Window{Entries: true}
	if l.story != nil {
		const recent = 8
		line, err := l.proxy.store.Load(ctx, head, segno.Window{Last: recent})
		if err != nil {
			return err
		}
		end := slices.IndexFunc(line.Commits, func(n segno.Node) bool { return n.ID == l.storyAt })
		if end < 0 {
			l.story = nil
		} else {
			window.Last = len(line.Commits) - 1 - end
		}
	}
	line, err := l.proxy.store.Load(ctx, head, window)
	if err != nil {
		return err
	}
	if l.story == nil {
		l.story = &preamble.Builder{Dir: l.record.Dir}
	}
	for _, n := range line.Commits {
		l.story.Add(n)
	}
	l.storyAt = head
	return nil
}
