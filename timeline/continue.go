package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/transcript"
)

const opContinue = "continue in another agent"

// ContinueRequest is a request to continue a conversation in another agent.
type ContinueRequest struct {
	Thread segno.ThreadID
	At     segno.CommitID // a checkpoint of the thread or an ancestor of one
	Agent  string         // the agent to continue in
	Dir    string         // the directory of the new session; "": that of the checkpoint in this workspace
	// Own is the name of segno's own agent. Its conversation is in the thread itself, as those of other Go programs are.
	// Messages returns the messages of such a conversation between two checkpoints, or from the beginning if after is "". The error is
	// [segno.KindNotFound] if the agent no longer has the end of after in its context.
	Own      string
	Messages func(ctx context.Context, after, at segno.CommitID) (transcript.Conversation, error)
}

// Continuation is the plan of a session in another agent.
type Continuation struct {
	At *segno.Checkpoint
	// Native is the newest checkpoint of the agent on the line. The new session begins like the agent's
	// session at that checkpoint. Native is nil if the agent has not worked on the line.
	Native       *segno.Checkpoint
	Conversation transcript.Conversation // the messages after Native
	Lost         map[transcript.Loss]int // the parts that cannot be transferred
	From         []string                // the agents whose turns are transferred, oldest first
}

// PlanContinue reads the conversation of a checkpoint for a session of another agent. It writes nothing. The
// error is [segno.KindInvalid] if the agent itself worked at the checkpoint, and [segno.KindNotFound] if
// there is no conversation or no reader for it.
func (tl *Timeline) PlanContinue(ctx context.Context, r ContinueRequest) (*Continuation, error) {
	tx, err := tl.prepareContinue(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if _, ok := tx.Transcripts[r.Agent].(transcript.ConversationWriter); !ok && r.Agent != r.Own {
		return nil, segno.Errorf(segno.KindNotFound, opContinue, r.Agent, "no session of that agent can be written").
			WithHint("use --with claude, codex or " + r.Own)
	}
	line, err := tx.line(ctx, r.At)
	if err != nil {
		return nil, err
	}
	runs := tx.runsOf(line, r.Own)
	switch {
	case len(runs) == 0:
		return nil, segno.Errorf(segno.KindNotFound, opContinue, string(r.At), "there is no conversation before the first prompt")
	case runs[0].agent == r.Agent:
		return nil, segno.Errorf(segno.KindInvalid, opContinue, string(r.At), "it is a conversation of %s already", r.Agent).
			WithHint("use 'segno resume' without --with")
	}
	p := &Continuation{At: line[0]}
	if err := tx.readRuns(ctx, r, runs, p); err != nil {
		return nil, err
	}
	if len(p.Conversation.Messages) == 0 {
		return nil, segno.Errorf(segno.KindNotFound, opContinue, string(r.At), "the conversation has no messages")
	}
	var all transcript.Conversation
	all.Append(transcript.Conversation{Lost: p.Conversation.Lost})
	if w, ok := tx.Transcripts[r.Agent].(transcript.ConversationWriter); ok {
		changed, err := w.Losses(ctx, p.Conversation)
		if err != nil {
			return nil, err
		}
		all.Append(transcript.Conversation{Lost: changed})
	}
	p.Lost = all.Lost
	return p, nil
}

// prepareContinue locks the workspace. A timeline without a workspace only works on sessions.
func (tl *Timeline) prepareContinue(ctx context.Context) (*txn, error) {
	if tl.Workspace == nil {
		return tl.lockSessions(ctx)
	}
	return tl.prepareMove(ctx)
}

// agentRun is a run of consecutive checkpoints of a line that belong to one agent.
type agentRun struct {
	agent       string
	first, last *segno.Checkpoint
	before      *segno.Checkpoint // the newest one below first that has a conversation, or nil
	inThread    bool              // the thread has the messages, and no session does
}

// runsOf divides a line, newest first, into the runs of its agents. It skips checkpoints without a
// conversation. A thread has the messages of segno's own agent, and those of Go programs.
func (tx *txn) runsOf(line []*segno.Checkpoint, own string) (runs []agentRun) {
	for _, c := range line {
		agent := c.Agent
		inThread := c.Session == nil && c.Turn > 0 && (agent == own || turns.IsOfGoAgent(c))
		switch {
		case c.Session != nil && c.Session.Leaf != "":
			agent = c.Session.Agent
		case !inThread:
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].agent == agent {
			runs[n-1].first = c
			continue
		} else if n > 0 {
			runs[n-1].before = c
		}
		runs = append(runs, agentRun{agent: agent, first: c, last: c, inThread: inThread})
	}
	return runs
}

// readRuns reads the messages since the newest run of the agent, or since the beginning.
func (tx *txn) readRuns(ctx context.Context, r ContinueRequest, runs []agentRun, p *Continuation) error {
	since := slices.IndexFunc(runs, func(x agentRun) bool { return x.agent == r.Agent })
	if since < 0 {
		since = len(runs)
	} else {
		p.Native = runs[since].last
	}
	for _, run := range slices.Backward(runs[:since]) {
		c, err := tx.readRun(ctx, r, run, false)
		if segno.KindOf(err) == segno.KindNotFound && run.before != nil {
			// The agent replaced the earlier messages with a summary, so its session has the whole
			// conversation.
			if c, err = tx.readRun(ctx, r, run, true); err == nil {
				p.Native, p.From, p.Conversation = nil, nil, transcript.Conversation{}
			}
		}
		if err != nil {
			return fmt.Errorf("read conversation of %s: %w", run.agent, err)
		}
		p.Conversation.Append(c)
		p.From = append(p.From, run.agent)
	}
	return nil
}

// readRun reads the messages of a run. If whole is set, it reads all messages in the agent's context at the
// end of the run.
func (tx *txn) readRun(ctx context.Context, r ContinueRequest, run agentRun, whole bool) (transcript.Conversation, error) {
	if run.inThread {
		after := segno.CommitID("")
		if run.before != nil && !whole {
			after = run.before.ID
		}
		return r.Messages(ctx, after, run.last.ID)
	}
	reader, ok := tx.Transcripts[run.agent].(transcript.ConversationReader)
	if !ok {
		return transcript.Conversation{}, segno.Errorf(segno.KindRefused, opContinue, run.agent, "no transcripts of that agent can be read here")
	}
	after := ""
	if run.before != nil && !whole {
		var err error
		if after, err = tx.startOf(ctx, run.first); err != nil {
			return transcript.Conversation{}, err
		}
	}
	return reader.ReadConversation(ctx, *run.last.Session, after, tx.Store.Objects())
}

// startOf returns the leaf at which the session of a checkpoint began, or "" if the agent began the session.
func (tx *txn) startOf(ctx context.Context, c *segno.Checkpoint) (string, error) {
	for l, err := range tx.chain(ctx, c.Thread) {
		if err != nil {
			return "", err
		}
		if l.Session == c.Session.Session && l.Position != nil {
			return l.Position.Leaf, nil
		}
	}
	return "", nil
}

// ContinueIn writes the session of a plan and returns it with the command that continues it. The session
// becomes a part of the thread, but the thread does not move until the user prompts the session. If a session
// was already written for the same checkpoint and is still unused, ContinueIn returns it again.
func (tl *Timeline) ContinueIn(ctx context.Context, r ContinueRequest, p *Continuation) (*segno.Link, []string, error) {
	tx, err := tl.prepareContinue(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer tx.unlock()
	head, err := tx.Store.Head(ctx, r.Thread)
	if err != nil {
		return nil, nil, err
	}
	dir := r.Dir
	if dir == "" {
		if dir, err = tx.sessionDir(ctx, p.At, tx.Workspace.Root()); err != nil {
			return nil, nil, err
		}
	}
	link, err := tx.unusedSession(ctx, head, r.Agent, p.At.ID, dir)
	if err != nil || link != nil {
		return link, tx.runOf(link), err
	}
	if link, err = tx.writeSession(ctx, r.Agent, p, dir); err != nil {
		return nil, nil, err
	}
	return link, tx.runOf(link), tx.commitLink(ctx, head, link)
}

func (tx *txn) runOf(l *segno.Link) []string {
	if l == nil {
		return nil
	}
	return tx.resumeCommand(l)
}

// unusedSession returns a session of an agent that was written for a checkpoint and still ends
// there, or nil.
func (tx *txn) unusedSession(ctx context.Context, head segno.Head, agent string, at segno.CommitID, dir string) (*segno.Link, error) {
	for l, err := range tx.chain(ctx, head.Thread) {
		if err != nil {
			return nil, err
		}
		if l.Agent != agent || l.At != at || l.Dir != dir || l.Position == nil {
			continue
		}
		if ok, err := tx.Transcripts[agent].EndsAt(ctx, segno.Source{Session: l.Session, Path: l.Path, Dir: l.Dir}, *l.Position); err == nil && ok {
			return &l, nil
		}
	}
	return nil, nil
}

// writeSession writes and captures the session of a plan.
func (tx *txn) writeSession(ctx context.Context, agent string, p *Continuation, dir string) (*segno.Link, error) {
	t := tx.Transcripts[agent]
	var native *segno.Position
	if p.Native != nil {
		native = p.Native.Session
	}
	objects := tx.Store.Objects()
	src, err := t.(transcript.ConversationWriter).WriteConversation(ctx, p.Conversation, native, segno.Target{Session: newSession(), Dir: dir}, objects)
	if err != nil {
		return nil, err
	}
	batch := objects.Batch()
	defer batch.Close()
	got := segno.Captured{}
	if native != nil {
		got.Position, err = t.CaptureCut(ctx, src, *native, objects, batch)
	} else {
		got, err = t.Capture(ctx, src, nil, batch, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read the session that was written: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage the session that was written: %w", err)
	}
	return &segno.Link{Agent: agent, Session: src.Session, Dir: dir, Path: src.Path, Start: tx.Now(), Reason: "resume", Fidelity: segno.FidelityRebuilt,
		At: p.At.ID, Position: &got.Position, Detached: true}, tx.keepStaged(ctx, staged)
}

// positionFor returns the end of a session of the thread's current agent for the conversation of a checkpoint
// of another agent, if the thread was continued in the current agent from there, or nil.
func (tx *txn) positionFor(ctx context.Context, head segno.Head, p *segno.Position) (*segno.Position, error) {
	if p == nil || head.Link.Agent == "" || head.Link.Agent == p.Agent || p.Leaf == "" {
		return p, nil
	}
	for l, err := range tx.chain(ctx, head.Thread) {
		if err != nil {
			return p, err
		}
		if l.Agent != head.Link.Agent || l.Position == nil || l.At == "" {
			continue
		}
		at, err := tx.checkpoint(ctx, l.At)
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return p, err
		}
		if err == nil && isAtEndOf(at.Session, p) {
			return cmp.Or(l.Position, p), nil
		}
	}
	return p, nil
}

// isAtEndOf reports whether two positions, the first of which may be nil, end at the same record of an
// agent.
func isAtEndOf(at, p *segno.Position) bool {
	return at != nil && at.Agent == p.Agent && at.Leaf == p.Leaf
}
