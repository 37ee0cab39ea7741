package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/timeline"
)

// attachment finds or makes a session of the agent for a thread. It executes the steps that
// [recoveryState] chooses.
type attachment struct {
	*session
	proc    *process
	state   threadState
	reason  string // the reason in the link, if the session is new to the thread
	canFork bool
	lost    string // why the thread's session could not be reopened
}

// attach makes the agent load a session that ends at the thread's head, and returns the
// process that loaded it. If the thread gets another session, its link records reason.
func (s *session) attach(ctx context.Context, reason string) (*process, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	return s.attachLoaded(ctx, reason, true)
}

// attachLoaded is attach after the session's record was read. If canFork is set, the agent
// may fork one of its sessions.
func (s *session) attachLoaded(ctx context.Context, reason string, canFork bool) (*process, error) {
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		return nil, err
	}
	if s.record.Thread == "" {
		return proc, s.attachUnprompted(ctx, proc)
	}
	if s.turn == nil || !s.turn.begun {
		err := s.closeAbandoned(ctx)
		if err != nil && (!s.proxy.BestEffort || isCancelled(err)) {
			return nil, err
		}
		s.proxy.logErr(err)
		if reason == reasonRecovery {
			reason = "resume" // no turn is left behind
		}
	}
	st, err := s.state(ctx)
	if err != nil {
		return nil, err
	}
	a := &attachment{session: s, proc: proc, state: st, reason: reason, canFork: canFork && s.proxy.agent.identity().Fork}
	return a.run(ctx)
}

// run takes the steps of the recovery ladder until it finds a session or no step is left. It
// returns the process that has the session loaded. The turn's output so far belongs to the
// previous session; therefore run restores that session if the ladder fails. run reads the
// story before the first step, because a preamble needs the story and a step may be slow.
func (a *attachment) run(ctx context.Context) (*process, error) {
	st, before := a.initialState(), a.up
	if st.next() != stepKeep {
		if err := a.readStory(ctx, a.state.head.Head); err != nil {
			return nil, err
		}
		a.preface = nil // it was for the previous session
	}
	for {
		step := st.next()
		err := a.execute(ctx, step)
		if err != nil && step == stepRestart {
			return nil, err
		}
		result := a.resultOf(err)
		had := st.hasSession
		st = st.after(step, result)
		if had && !st.hasSession && result == stepEnded {
			a.logf("the agent ends when it opens session %s", a.state.link.Session)
			a.unusable[a.state.link.Session] = true
		}
		switch st.next() {
		case stepDone:
			a.known = a.state.turnID()
			return a.proc, nil
		case stepGiveUp:
			// The opened session does not belong to the thread: its output must not count as
			// the turn's.
			if a.process = nil; before != "" {
				a.proxy.announce(a.session, before, nil)
			}
			return a.proc, err
		}
	}
}

// initialState is the state in which the ladder begins. A session counts as loaded only if
// the current process loaded it: a restarted process has no session.
func (a *attachment) initialState() recoveryState {
	st := a.state
	return recoveryState{
		hasSession: st.link != nil,
		loaded:     st.link != nil && a.process == a.proc && !a.broken && st.link.Session == a.up,
		current:    a.known == st.turnID() && (st.link == nil || !st.isDeleted()),
		canRebuild: a.canCut(st.at),
		canFork:    a.canFork && st.turn != nil && a.unfinished == nil,
	}
}

// errUnsupported is the error of a recovery step that the agent cannot take for this
// session.
var errUnsupported = errors.New("not possible")

// resultOf classifies the error of a step. A step returns errUnsupported if the agent
// refuses only that step; any other error of the agent or the store is final.
func (a *attachment) resultOf(err error) stepResult {
	switch {
	case err == nil:
		return stepSucceeded
	case errors.Is(err, errAgentEnded):
		return stepEnded
	case errors.Is(err, errUnsupported):
		return stepRefused
	}
	return stepFailed
}

// execute takes one step. A step that moves the thread to another session also records that
// session as the newest link of the thread's chain, so that the next run finds it.
func (a *attachment) execute(ctx context.Context, step recoveryStep) (err error) {
	switch step {
	case stepKeep:
		a.proxy.announce(a.session, a.up, nil) // another client id of the thread may have received its updates
		return a.joinExisting(ctx, a.state)
	case stepUnload:
		if !a.unload(ctx, a.proc) {
			return errUnsupported
		}
		a.process = nil
	case stepReopen:
		return a.reopenLink(ctx)
	case stepRebuild:
		return a.rebuild(ctx)
	case stepFork:
		return a.forkEarlier(ctx)
	case stepNew:
		return a.startNew(ctx)
	case stepRestart:
		a.proc, err = a.proxy.agent.running(ctx)
	}
	return err
}

// attachUnprompted loads a session that had no turn yet: there is no conversation to lose,
// unless the agent had the session before segno.
func (s *session) attachUnprompted(ctx context.Context, proc *process) error {
	isLoaded := s.process == proc && !s.broken
	collect := s.needsHistory(ctx) && s.proxy.agent.identity().Load
	if isLoaded && !collect {
		return nil
	}
	up := s.record.Upstream
	if up != "" {
		if collect {
			s.collecting = new(replayReader)
		}
		err := s.reopen(ctx, proc, up, nil, nil)
		replayed := s.collecting
		s.collecting = nil
		if err == nil && replayed != nil {
			replayed.endTurn()
			s.history = replayed
		}
		switch {
		case err == nil || errors.Is(err, errAgentEnded):
			return err
		case isLoaded && isAnswer(err):
			s.logf("the agent does not replay the turns from before segno: %v", err)
			return nil
		case s.record.Foreign:
			return fmt.Errorf("continue session %s: %w", up, err)
		}
	}
	up, err := s.openNew(ctx, proc)
	if err != nil {
		return err
	}
	s.record.Upstream = up
	return s.save()
}

// reopenLink opens the chain's session that ends at the head.
func (a *attachment) reopenLink(ctx context.Context) error {
	if a.process != a.proc || a.up != a.state.link.Session { // else the agent may have it in memory
		if err := a.restoreDeleted(ctx, &a.state); err != nil {
			return err
		}
	}
	link := a.state.link
	err := a.reopen(ctx, a.proc, link.Session, a.state.turn, a.state.position())
	if err == nil {
		if a.fromPreamble = link.Fidelity == segno.FidelityPreamble; a.reason == string(segno.VerbFork) {
			a.fidelity = link.Fidelity
		}
		a.addEntry(segno.Entry{Kind: segno.EntryNote, Name: "session",
			Body: acp.Encode(map[string]any{"reason": a.reason, "fidelity": segno.FidelityNative})})
		if err := a.prefaceUnseen(ctx, a.state, a.state.isUnprompted()); err != nil {
			return err
		}
		return a.joinExisting(ctx, a.state)
	}
	if !isAnswer(err) || a.proxy.isFinalRefusal(err) && !a.isSharedByClients(ctx, err) {
		return err
	}
	if errors.Is(err, errIncomplete) {
		a.unusable[link.Session] = true
	}
	a.lost = err.Error()
	a.logf("session %s is lost: %v", link.Session, err)
	return errUnsupported
}

// rebuild writes the conversation up to the head as a new session of the agent. It only adds
// a session file: the agent's existing files are never edited.
func (a *attachment) rebuild(ctx context.Context) error {
	tl, err := a.timeline(ctx)
	if err != nil {
		return err
	}
	link, err := tl.RebuildSession(ctx, a.state.at.ID, a.record.Dir)
	if isCancelled(err) {
		return err
	}
	if err != nil {
		a.logf("the transcript cannot be rebuilt: %v", err)
		return errUnsupported
	}
	err = a.reopen(ctx, a.proc, link.Session, nil, nil)
	if isAnswer(err) {
		a.logf("the agent refuses the rebuilt session: %v", err)
		return errUnsupported
	}
	if err != nil {
		return err
	}
	link.Reason = a.reason
	a.fidelity, a.fromPreamble = segno.FidelityRebuilt, false
	if a.turn != nil && a.turn.proc != nil {
		a.report("the agent lost its session in this turn; the session was rebuilt as it was before the turn")
	}
	if err := a.prefaceUnseen(ctx, a.state, true); err != nil {
		return err
	}
	return a.join(ctx, *link)
}

// forkEarlier makes the agent fork a session that continued after the thread's newest turn.
func (a *attachment) forkEarlier(ctx context.Context) error {
	defer a.proxy.beginOpening()()
	up, err := a.forkAt(ctx, a.proc, a.state.turn)
	if err != nil {
		return err
	}
	a.proxy.announce(a.session, up, nil)
	if err := a.replaySettings(context.WithoutCancel(ctx), a.proc); err != nil {
		return err
	}
	return a.join(ctx, a.newLink(up, a.reason, segno.FidelityNative, a.state.at.ID))
}

// startNew makes a new session, which receives the conversation as a preamble with its first
// prompt. Within a turn, the prompt follows at once and the preamble becomes its preface.
// Outside of a turn, startNew stores the preamble in the link's note, because another
// process may send the first prompt.
func (a *attachment) startNew(ctx context.Context) error {
	up, err := a.openNew(ctx, a.proc)
	if err != nil {
		return err
	}
	text := a.story.Text(preamble.Options{Open: a.unfinished})
	if text == "" || a.state.turn == nil && a.unfinished == nil { // there is no conversation yet
		if a.record.IncompleteHistory {
			a.report("the conversation continues in a new session; the turns from before segno are not recorded")
		}
		a.fidelity, a.fromPreamble = segno.FidelityNative, false
		return a.join(ctx, a.newLink(up, a.reason, segno.FidelityNative, a.state.at.ID))
	}
	a.fidelity, a.fromPreamble = segno.FidelityPreamble, true
	link := a.newLink(up, a.reason, segno.FidelityPreamble, a.state.at.ID)
	if a.turn != nil && (a.turn.begun || a.unrecorded) {
		a.preface = append([]string{text}, a.preface...)
		a.addEntry(note(text))
	} else {
		link.Note = text // the process that runs the session's first turn sends it with the prompt
		if a.forkedFrom != "" && a.forkedFrom != a.record.Dir {
			link.Note += "\n\n" + timeline.ForkNote(a.forkedFrom, a.record.Dir)
		}
	}
	if a.reason != string(segno.VerbFork) {
		a.reportNew()
	}
	return a.join(ctx, link)
}

// reportNew tells the user why the conversation continues in a new session.
func (a *attachment) reportNew() {
	why := cmp.Or(a.lost, "the agent has no session at this point of the conversation")
	if a.state.link != nil {
		why = strings.ReplaceAll(why, string(a.state.link.Session), string(a.id)) // the id that the user knows
	}
	if a.record.IncompleteHistory {
		why += "; the turns from before segno are not recorded"
	}
	a.report("the conversation continues in a new session, which received a summary of it (%s)", why)
}
