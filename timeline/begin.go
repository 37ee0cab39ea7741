package timeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Prompt describes the beginning of a turn.
type Prompt struct {
	Key    segno.TurnKey // the agent's id of the prompt; "" if it has none
	Agent  string
	Source segno.Source
	Text   string
	Task   string         // the background task that the prompt reports on; "" if a user wrote it
	Queued bool           // see [OpenTurn]
	Owner  string         // of the lease on the thread, if the caller holds one
	Thread segno.ThreadID // of the session, if the caller knows it; if "", BeginTurn finds it by the id of the session
	Process

	eventKey segno.TurnKey // see [OpenTurn]
}

// TurnStart holds the messages for the agent and its user at the beginning of a turn.
type TurnStart struct {
	Key  segno.TurnKey
	Tell string // for the agent: one sentence about a move since its last turn, or ""
	Warn string // for the user, or ""
}

// BeginTurn opens a turn. If the files changed since the thread's head, BeginTurn commits
// an external checkpoint first. On return the open turn is durable. Turns of the same
// session, and of agents that have exited, are closed as interrupted. A prompt that
// belongs to an open turn is added to that turn. Before all this, BeginTurn makes the requested moves that wait for no turn.
func (tl *Timeline) BeginTurn(ctx context.Context, p Prompt) (TurnStart, error) {
	if p.Source.Session == "" {
		return TurnStart{}, segno.Errorf(segno.KindInvalid, "begin turn", "", "it needs a session")
	}
	requested := tl.makeRequestedOrWarn(ctx)
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return TurnStart{}, err
	}
	defer tx.unlock()

	if open, err := tx.joinOpenTurn(ctx, p); open != "" || err != nil {
		return TurnStart{Key: open}, err
	}
	if err := tx.chooseKey(ctx, &p); err != nil {
		return TurnStart{}, err
	}
	overlaps, err := tx.closeStale(ctx, p)
	if err != nil {
		return TurnStart{}, err
	}
	start := tx.Now() // a change after this time may be in the snapshot, and an earlier one is in it
	snap, staged, err := tx.snapshotWith(ctx, tx.Workspace.SnapshotWatched)
	if err != nil {
		return TurnStart{}, err
	}
	turn := OpenTurn{Key: p.Key, Agent: p.Agent, Source: p.Source, Workspace: tx.Workspace.ID(), Thread: p.Thread,
		Prompt: p.Text, Before: &snap, Start: start, Rules: hasRules(&snap), Queued: p.Queued, EventKey: p.eventKey, Owner: p.Owner, Process: p.Process}
	begun := TurnStart{Key: p.Key}
	newestIsShared, err := tx.beginOnThread(ctx, &turn, staged, &begun)
	if err != nil {
		return TurnStart{}, err
	}
	if overlaps && !newestIsShared && begun.Warn == "" {
		begun.Warn = fmt.Sprintf("segno: another agent is active in %s; paths that both change will count as conflicts in an undo", tx.Workspace.Root())
	}
	if err := tx.saveTurn(ctx, turn); err != nil {
		return TurnStart{}, err
	}
	begun.Warn = joinWarnings(requested, begun.Warn, tx.unreadWarning(ctx, &snap, nil))
	return begun, tx.pendingErr
}

// chooseKey gives a turn a new key if its prompt has no key, or the key of a turn that ended. If
// the user queued a message while the agent's hooks for the end of a turn ran, that message and all
// its later events have the id of the ended turn.
func (tx *txn) chooseKey(ctx context.Context, p *Prompt) error {
	if p.Key != "" {
		done, err := tx.recordedEnd(ctx, OpenTurn{Key: p.Key, Source: p.Source})
		if done == nil || err != nil {
			return err
		}
		p.Queued, p.eventKey = true, p.Key
		// A late event of the ended turn may have left a file with its key. The events of the new turn would go there.
		if _, open := tx.openTurn(p.Key); !open {
			if err := tx.Spool.DeleteTurn(ctx, p.Key); err != nil {
				return err
			}
		}
	}
	p.Key = segno.TurnKey(segno.NewID())
	return nil
}

// hasRules reports whether the root of a snapshot has a .segnoignore.
func hasRules(s *segno.Snapshot) bool {
	_, err := os.Lstat(filepath.Join(s.Root, ".segnoignore"))
	return err == nil
}

// beginOnThread finds the thread of a turn and updates it: the session of the prompt becomes the
// head session, and an external checkpoint records the changes made outside turns. newestIsShared reports
// whether the newest turn of the thread is shared, in which case the user already knows.
func (tx *txn) beginOnThread(ctx context.Context, turn *OpenTurn, staged segno.Staged, begun *TurnStart) (newestIsShared bool, err error) {
	if turn.Thread == "" {
		if turn.Thread, err = tx.threadOf(ctx, turn.Source.Session); err != nil {
			return false, fmt.Errorf("find thread: %w", err)
		}
	}
	if turn.Thread == "" {
		// The transcript shows at the turn's end to which thread this session belongs. Until
		// then the open turn keeps the snapshot.
		return false, tx.keepOrHold(ctx, staged, turn)
	}
	s, err := tx.threadState(ctx, turn.Thread)
	if err == nil {
		s, err = tx.captureTurnEnd(ctx, s)
	}
	if err != nil {
		return false, err
	}
	// A failure to write the note must not lose the turn.
	if begun.Tell, err = tx.moveNote(ctx, s, turn.Source.Session); segno.KindOf(err) == segno.KindCancelled {
		return false, err
	}
	was := s.at
	if s.head.Link.Session != turn.Source.Session {
		if s, err = tx.switchSession(ctx, s, turn.Agent, turn.Source); err != nil {
			return false, err
		}
	} else if s.head.Link.Note != "" && !hasHeardNote(s.at, s.head.Link) {
		begun.Tell = strings.TrimSuffix(s.head.Link.Note+"\n\n"+begun.Tell, "\n\n")
	}
	newestIsShared = s.at.Shared
	if s, err = tx.commitChangesBefore(ctx, turn, s, was, staged, begun); err != nil {
		return false, err
	}
	turn.Note, turn.Parent = begun.Tell, s.head.Head
	return newestIsShared, nil
}

// commitChangesBefore records the changes that were made outside turns since the head s of a turn's
// thread. was is the checkpoint that was the head before the session of the turn became the head session.
func (tx *txn) commitChangesBefore(ctx context.Context, turn *OpenTurn, s threadState, was *segno.Checkpoint, staged segno.Staged, begun *TurnStart) (_ threadState, err error) {
	snap := *turn.Before
	if !s.at.Workspace.Equals(&snap) && !tx.deferred {
		if s, err = tx.recordMove(ctx, s, was, snap, turn.Key); err != nil {
			return s, err
		}
	}
	if s.at.Workspace.Equals(&snap) {
		return s, tx.keepOrHold(ctx, staged, turn)
	}
	if s, err = tx.commitExternal(ctx, s, snap, staged, turn.Key); err == nil {
		begun.Warn = unsavedWarning(s.at.Files.Protected)
	}
	return s, err
}

// hasHeardNote reports whether a turn of the head session was recorded after the session got its
// note, because the agent received the note at that turn.
func hasHeardNote(at *segno.Checkpoint, l segno.Link) bool {
	return at.Kind == segno.CheckpointTurn && at.Session != nil && at.Session.Session == l.Session && at.Time.After(l.Start)
}

// switchSession makes another session of the chain the head session, because the user continued in
// it. A new line begins at the checkpoint at which that session ended.
func (tx *txn) switchSession(ctx context.Context, s threadState, agent string, src segno.Source) (threadState, error) {
	last, err := tx.endOfSession(ctx, s, src.Session)
	if err != nil {
		return s, err
	}
	head, tree := s.head, s.at.Tree()
	c := newCommit(head)
	c.Move = &segno.Move{Head: last.ID, Tip: last.ID}
	c.Link = &segno.Link{Agent: agent, Session: src.Session, Dir: src.Dir, Path: src.Path, Start: tx.Now(),
		Reason: string(segno.VerbSwitch), Fidelity: segno.FidelityNative, At: last.ID}
	c.Operation = &segno.Operation{ID: segno.OperationID(segno.NewID()), Workspace: tx.Workspace.ID(), Thread: head.Thread,
		Verb: segno.VerbSwitch, Args: string(src.Session), Actor: tx.Actor, Time: tx.Now(),
		Before: segno.Pointers{Head: head.Head, Tip: head.Tip, Session: head.Link.Session, Tree: tree},
		After:  segno.Pointers{Head: last.ID, Tip: last.ID, Session: src.Session, Tree: tree}}
	s, err = tx.commitOrDefer(ctx, head, c)
	s.at = last
	return s, err
}

// endOfSession returns the checkpoint at which a session ended: its newest checkpoint, or its
// newest turn if that checkpoint is below the turn, because moves make checkpoints of older
// positions. A session without a turn ends at the checkpoint at which it was cut.
func (tx *txn) endOfSession(ctx context.Context, s threadState, session segno.SessionID) (*segno.Checkpoint, error) {
	last, err := tx.newest(ctx, segno.CheckpointQuery{Thread: s.head.Thread, Session: session})
	if err != nil {
		return nil, err
	}
	if last == nil {
		_, l, err := tx.linksOf(ctx, s.head, session)
		if err != nil || l == nil || l.At == "" {
			return s.at, err
		}
		return tx.checkpoint(ctx, l.At)
	}
	if last.Kind == segno.CheckpointTurn {
		return last, nil
	}
	turn, err := tx.newestTurn(ctx, last.Thread, session)
	if err != nil || turn == nil {
		return last, err
	}
	line, err := tx.line(ctx, last.ID)
	if segno.KindOf(err) == segno.KindNotFound {
		return last, nil // the commit is deferred
	}
	if err != nil || slices.ContainsFunc(line, hasID(turn.ID)) {
		return last, err
	}
	return turn, nil
}

// hasID returns a function that reports whether a checkpoint has the given id.
func hasID(id segno.CommitID) func(*segno.Checkpoint) bool {
	return func(c *segno.Checkpoint) bool { return c.ID == id }
}
