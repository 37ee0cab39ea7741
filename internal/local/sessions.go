package local

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// FoundSession is a session of an agent on this machine.
type FoundSession struct {
	Agent string
	transcript.SessionFile
	Purge  time.Time // when the agent may delete it; zero if the agent does not delete sessions
	Copies []string  // older files of the same session
}

// FindSessions returns the sessions of all agents, newest first, without opening a file. skipped has an
// error for each file that cannot be a session of its agent or cannot be read.
func (p Place) FindSessions(ctx context.Context) (found []FoundSession, skipped []error) {
	for agent, t := range p.Transcripts(nil) {
		d, ok := t.(transcript.Discovery)
		if !ok {
			continue
		}
		age, purges := d.Retention()
		for f, err := range d.Sessions(ctx) {
			if err != nil {
				skipped = append(skipped, err)
				continue
			}
			s := FoundSession{Agent: agent, SessionFile: f}
			if purges {
				s.Purge = f.Modified.Add(age)
			}
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b FoundSession) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(string(a.Session), string(b.Session)), strings.Compare(a.Path, b.Path))
	})
	return withoutCopies(found), skipped
}

// AgentInUse returns the agent that the user probably works with, of those that have hooks: the one with the newest session, else
// one that is installed, else the first of the list.
func (p Place) AgentInUse(ctx context.Context) string {
	known := agents.WithHooks()
	found, _ := p.FindSessions(ctx) // a session that cannot be read does not show which agent is in use
	for _, s := range found {
		if slices.Contains(known, s.Agent) {
			return s.Agent
		}
	}
	for _, name := range known {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return known[0]
}

// CheckSession returns the damage of a session. It writes nothing.
func (p Place) CheckSession(ctx context.Context, agent string, src segno.Source, o transcript.LintOptions) (transcript.Diagnosis, error) {
	linter, ok := p.Transcripts(nil)[agent].(transcript.Linter)
	if !ok {
		return transcript.Diagnosis{}, segno.Errorf(segno.KindNotFound, "check session", agent, "sessions of that agent cannot be checked")
	}
	return linter.Check(ctx, src, o)
}

// OpenElsewhere returns the id of a process that has a session open and that this process did not start.
// It returns -1 if the id of that process is not known, and 0 if there is no such process.
func (p Place) OpenElsewhere(ctx context.Context, session segno.SessionID) int {
	for _, t := range p.Transcripts(nil) {
		d, ok := t.(transcript.Discovery)
		if !ok {
			continue
		}
		pid := d.Running(ctx)[session]
		if pid != 0 && !slices.Contains(slices.Collect(proc.Ancestors(pid)), os.Getpid()) {
			return pid
		}
	}
	return 0
}

// withoutCopies returns each session once, with the newest of its files. The agent's readers find that file, too.
func withoutCopies(all []FoundSession) []FoundSession {
	type id struct {
		agent   string
		session segno.SessionID
	}
	first := make(map[id]int, len(all))
	out := all[:0]
	for _, s := range all {
		key := id{s.Agent, s.Session}
		if i, known := first[key]; known {
			out[i].Copies = append(out[i].Copies, s.Path)
			continue
		}
		first[key] = len(out)
		out = append(out, s)
	}
	return out
}

// SessionDetail has the facts about a session from its transcript and from the store.
type SessionDetail struct {
	FoundSession
	transcript.SessionHeader
	Live   int            // the process that has it open, or 0
	Thread segno.ThreadID // "" if no thread has it
	Kept   bool           // the store has its whole conversation
	// IsChanged means that the transcript may have changed since it was last compared with the store. The conversation may
	// be kept nevertheless.
	IsChanged bool
	Err       error // why the transcript could not be read
}

const (
	// maxCounted is the size of the largest transcript in which turns are counted.
	maxCounted = 32 << 20
	// countBudget is the number of bytes that one list reads to count turns. The newest sessions use it
	// first.
	countBudget = 256 << 20
	// growth is the number of bytes by which a transcript may grow while Details makes the list.
	growth = 64 << 10
)

// Details reads the headers of sessions, in parallel, and looks the sessions up in a store. It does not
// read sessions that are unchanged since an earlier call with the same store. store may be nil.
func (p Place) Details(ctx context.Context, store *Store, found []FoundSession) ([]SessionDetail, error) {
	return p.details(ctx, store, found, countLimits)
}

// BriefDetails is Details without the number of turns: it reads only the beginning and the end of a
// transcript.
func (p Place) BriefDetails(ctx context.Context, store *Store, found []FoundSession) ([]SessionDetail, error) {
	return p.details(ctx, store, found, func(read []FoundSession) []int64 { return make([]int64, len(read)) })
}

// countLimits returns for each session the size up to which it is read whole.
func countLimits(found []FoundSession) []int64 {
	most, budget := make([]int64, len(found)), int64(countBudget)
	for i, s := range found {
		if s.Bytes <= maxCounted && s.Bytes <= budget {
			most[i] = s.Bytes + growth
			budget -= s.Bytes
		}
	}
	return most
}

// CompleteEnds stores the end records of turns that agents wrote after the hooks had captured the turns. It
// does so only for sessions of which the store lacks nothing else.
func (s *Store) CompleteEnds(ctx context.Context, all []SessionDetail) error {
	agents := s.place.Transcripts(nil)
	for i := range all {
		d := &all[i]
		if _, ok := agents[d.Agent].(transcript.TurnEndCapturer); !ok || d.Kept || d.Thread == "" {
			continue
		}
		done, err := s.SessionTimeline().CaptureTurnEnd(ctx, d.Thread)
		if err == nil && done {
			err = s.lookUp(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp finds the thread of a session and whether its conversation is kept.
func (s *Store) lookUp(ctx context.Context, d *SessionDetail) error {
	head, err := s.headOf(ctx, d.Agent, d.Session)
	if err == nil {
		err = s.setThread(ctx, d, head, false)
	}
	return err
}

// setThread sets the thread of a session from the thread's head, and sets whether the store has the session's
// conversation. isKept means that the caller knows that the store has it.
func (s *Store) setThread(ctx context.Context, d *SessionDetail, head segno.Head, isKept bool) error {
	if head.Thread == "" {
		return nil
	}
	d.Thread, d.Kept = head.Thread, isKept
	// The records of a moved session still name the old directory.
	if l := head.Link; l.Session == d.Session && l.Dir != "" && filepath.Clean(l.Path) == d.Path {
		d.Dir = l.Dir
	}
	if isKept {
		return nil
	}
	var closest *segno.Position // of those that have the whole conversation
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: d.Thread, Session: d.Session}) {
		if err != nil {
			return err
		}
		if c.Session.Offset < d.End || d.End <= 0 || c.Session.Log.IsZero() {
			continue
		}
		if d.Kept, err = s.isBeginning(ctx, d, c.Session); d.Kept || err != nil {
			return err
		}
		if closest == nil || c.Session.Offset < closest.Offset {
			closest = c.Session
		}
	}
	if closest != nil {
		d.Kept = s.endsAt(ctx, d, closest)
	}
	return ctx.Err()
}

// isBeginning reports whether one small read, or none, shows that a session still begins with the bytes of a position. Codex only
// appends to a rollout, and begins another one if the user goes back to an earlier turn.
func (s *Store) isBeginning(ctx context.Context, d *SessionDetail, p *segno.Position) (bool, error) {
	switch d.Agent {
	case claude.Agent:
		return s.place.ClaudeTranscripts().BeginsWith(ctx, segno.Source{Session: d.Session, Path: d.Path}, *p)
	case codex.Agent:
		id := codex.RolloutID(p.Path)
		return id == "" || id == codex.RolloutID(d.Path), nil
	}
	return false, nil
}

// endsAt reports whether the conversation of a session ends at a position. It reads the session whole, so it is only for the agents
// that isBeginning does not know. A session that cannot be read is not known to be kept.
func (s *Store) endsAt(ctx context.Context, d *SessionDetail, p *segno.Position) bool {
	t := s.place.Transcripts(nil)[d.Agent]
	if d.Agent == claude.Agent || d.Agent == codex.Agent || t == nil {
		return false
	}
	ok, err := t.EndsAt(ctx, segno.Source{Session: d.Session, Path: d.Path}, *p)
	return ok && err == nil
}

// WithoutThread returns the sessions of an agent in a directory or below it that have a conversation, that
// changed after a time, and that belong to no thread, because none of their turns was recorded. It leaves
// out a session with an open turn, because the end of the first turn creates the thread, and one in which no turn began; see
// [transcript.SessionHeader]. It also leaves out a session if the proxy recorded its turns under the name that the agent has
// over ACP, such as OpenCode.
func (s *Store) WithoutThread(ctx context.Context, agent, root string, since time.Time) (out []SessionDetail, err error) {
	found, _ := s.place.FindSessions(ctx) // 'segno sessions' names the sessions that cannot be read
	found = slices.DeleteFunc(found, func(f FoundSession) bool { return f.Agent != agent || !f.Modified.After(since) })
	details, err := s.place.BriefDetails(ctx, s, found)
	if err != nil {
		return nil, err
	}
	open, err := s.place.Spool().Turns(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range details {
		isOpen := slices.ContainsFunc(open, func(t timeline.OpenTurn) bool { return t.Source.Session == d.Session })
		if rel, relErr := filepath.Rel(root, d.Dir); d.Err != nil || d.End <= 0 || d.Thread != "" || d.HasNoTurn || isOpen || relErr != nil || !filepath.IsLocal(rel) {
			continue
		}
		head, err := s.headWhere(ctx, d.Session, func(l segno.Link) bool { _, known := agents.Of(l.Agent); return !known })
		if err != nil {
			return nil, err
		}
		if head.Thread == "" {
			out = append(out, d)
		}
	}
	return out, nil
}

// headOf returns the head of the thread that has a session of an agent, or the zero Head if there is
// none. It needs the agent, because sessions of two agents can have the same id.
func (s *Store) headOf(ctx context.Context, agent string, session segno.SessionID) (segno.Head, error) {
	return s.headWhere(ctx, session, func(l segno.Link) bool { return l.Agent == agent || l.Agent == "" })
}

// headWhere returns the head of the first thread that has a link to a session for which is returns true, or the
// zero Head if there is none.
func (s *Store) headWhere(ctx context.Context, session segno.SessionID, is func(segno.Link) bool) (segno.Head, error) {
	isIn := func(l segno.Link) bool { return l.Session == session && is(l) }
	for t, err := range s.Threads(ctx, segno.ThreadQuery{Session: session}) {
		if err != nil {
			return segno.Head{}, err
		}
		head, err := s.Head(ctx, t.ID)
		if err != nil || isIn(head.Link) {
			return head, err
		}
		for l, err := range s.Chain(ctx, t.ID) {
			if err != nil || isIn(l) {
				return head, err
			}
		}
	}
	return segno.Head{}, nil
}

// SessionTimeline returns a timeline that has no workspace, for [timeline.Timeline.KeepSession] and
// the other methods that need none.
func (s *Store) SessionTimeline() *timeline.Timeline {
	return timeline.Open(timeline.Config{Store: s.Store, Spool: s.place.Spool(), Now: s.place.Now, Alive: s.place.Spool().Alive(s.place.Now), Transcripts: s.place.Transcripts(s.Objects())})
}
