package proxy

import (
	"cmp"
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// openRequest is a session/load or a session/resume of the client.
type openRequest struct {
	*session
	m    acp.Message
	load bool // it is a session/load, which replays the conversation

	interrupted *segno.Checkpoint // the newest turn, if the agent may not have all of it
}

// open serves session/load and session/resume. If the agent's session has the whole
// conversation, open forwards the request. Otherwise the recovery ladder opens a session, and
// the proxy replays the conversation from the store.
func (s *session) open(m acp.Message) error {
	if err := s.load(); err != nil {
		return err
	}
	r := &openRequest{session: s, m: m, load: m.MethodName() == "session/load"}
	dir := cwd(m)
	if s.turn != nil && dir != "" && dir != s.record.Dir {
		return segno.Errorf(segno.KindBusy, "open session", string(s.id), "a turn is in progress in %s", s.record.Dir).
			WithHint("wait until it ends, or cancel it")
	}
	ctx, end := s.wait()
	defer end()
	if s.turn != nil {
		// Do not ask the agent: its replay would count as output of the turn.
		r.openRecovered(ctx)
		return nil
	}
	from := s.record.Dir
	s.openParams, s.record.Deleted = withoutExtensions(m), false
	if dir != "" {
		s.record.Dir = dir
	}
	return r.choose(ctx, from)
}

// choose opens the session in the best way that is possible now: read-only while another
// client has the thread, natively if the agent's session is complete, else by recovery. from
// is the session's previous directory.
func (r *openRequest) choose(ctx context.Context, from string) error {
	if held, err := r.heldElsewhere(ctx); err != nil {
		return err
	} else if held {
		return r.openHeld(ctx)
	}
	if err := r.relocate(ctx, from); err != nil {
		return err
	}
	if r.record.Thread != "" {
		if err := r.closeAbandoned(ctx); err != nil {
			r.logf("%v", err) // the first prompt must attach a session
		}
	}
	native, err := r.prepareNative(ctx)
	if native && err == nil {
		return r.openNative(ctx)
	}
	if r.collecting = nil; err == nil {
		r.openRecovered(ctx)
	}
	return err
}

// openHeld opens a thread on which another client's turn is under way. It replays the record
// to the client, and does not touch the agent's session before the client prompts.
func (r *openRequest) openHeld(ctx context.Context) error {
	r.process = nil
	if r.load {
		if err := r.replay(ctx, nil); err != nil {
			return err
		}
	}
	r.proxy.result(r.m, struct{}{})
	r.report("another client's turn is in progress in this conversation; prompts are refused until it ends")
	r.announceCommands()
	return nil
}

// relocate copies the agent's session to the directory in which the client opened it, because
// agents keep separate sessions for each directory. The session in the previous directory
// stays.
func (s *session) relocate(ctx context.Context, from string) error {
	if s.record.Thread == "" || from == "" || from == s.record.Dir {
		return nil
	}
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	s.process = nil
	if st.link == nil {
		return nil
	}
	tl, err := s.timeline(ctx)
	if err != nil {
		return err
	}
	link := *st.link
	if t := tl.Transcripts[s.record.Agent]; t != nil {
		src, err := t.Find(ctx, link.Session)
		if err == nil {
			src, err = t.Relocate(ctx, src, s.record.Dir)
		}
		if err != nil {
			s.logf("move the session to %s: %v", s.record.Dir, err)
			return nil // the recovery ladder has other steps
		}
		link.Path = src.Path
	}
	link.Dir, link.Start, link.Reason = s.record.Dir, s.proxy.Place.Now(), "move"
	return s.join(ctx, link)
}

// prepareNative reports whether the agent can serve the request: it can load or resume, and
// its session has the whole conversation. It prepares the reader of the replay.
func (r *openRequest) prepareNative(ctx context.Context) (bool, error) {
	if !r.proxy.agent.identity().serves(r.load) {
		return false, nil
	}
	if r.record.Thread == "" {
		r.up = r.record.Upstream
		if r.history = nil; r.load && r.record.Foreign {
			r.collecting = new(replayReader)
		}
		return true, nil
	}
	st, err := r.state(ctx)
	if err != nil || st.link == nil {
		return false, err
	}
	if proc := r.proxy.agent.current(); r.process == nil || r.process != proc {
		if err := r.restoreDeleted(ctx, &st); err != nil {
			return false, err
		}
	}
	if ok, err := r.hasConversation(ctx, st); err != nil || !ok {
		return false, err
	}
	r.proxy.announce(r.session, st.link.Session, nil)
	r.known, r.fromPreamble = st.turnID(), st.link.Fidelity == segno.FidelityPreamble
	if r.load && st.turn != nil && st.turn.Interrupted {
		r.interrupted, r.collecting = st.turn, cmp.Or(r.collecting, new(replayReader))
		r.collecting.promptsOnly = false
	}
	return true, nil
}

// hasConversation reports whether the agent's session has the whole conversation of the thread.
func (r *openRequest) hasConversation(ctx context.Context, st threadState) (bool, error) {
	for _, has := range []func(context.Context, threadState) (bool, error){r.canReplay, r.trusts, r.refresh} {
		if ok, err := has(ctx, st); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// refresh makes the agent close a session that another process continued, because the agent's
// process has an old state of it. refresh reports whether the agent will read the session
// again.
func (r *openRequest) refresh(ctx context.Context, st threadState) (bool, error) {
	proc := r.proxy.agent.current()
	isStale := r.process != nil && r.process == proc && r.up == st.link.Session && r.known != st.turnID()
	return !isStale || r.unload(ctx, proc), nil
}

// canReplay reports whether the agent can replay the conversation for a load. It cannot
// replay turns that its session has only as a preamble.
func (r *openRequest) canReplay(ctx context.Context, _ threadState) (bool, error) {
	if !r.load {
		return true, nil
	}
	incomplete, err := find(r.proxy.store.Chain(ctx, r.record.Thread), func(l *segno.Link) bool {
		return l.Fidelity == segno.FidelityPreamble || l.Fidelity == segno.FidelityNone
	})
	return incomplete == nil, err
}

// trusts reports whether the agent's session can be trusted to have the thread's newest turn:
// the transcript contains the turn, or the replay will show it.
func (r *openRequest) trusts(ctx context.Context, st threadState) (bool, error) {
	verified, err := r.verifyTranscript(ctx, st.link.Session, st.position())
	if errors.Is(err, errIncomplete) {
		return false, nil
	}
	if err != nil || verified || st.turn == nil || st.turn.Session.Session != st.link.Session {
		return true, err
	}
	if r.load {
		r.collecting, err = r.expectTurns(ctx, st.link.Session, st.turn)
	}
	return r.load || !r.proxy.agent.identity().Load, err
}

// openNative forwards the request. If the agent refuses, the recovery ladder serves it.
func (r *openRequest) openNative(ctx context.Context) error {
	proc, err := r.proxy.agent.running(ctx)
	if err != nil {
		r.collecting = nil
		return err
	}
	r.proxy.announce(r.session, r.up, nil)
	proc.send(r.box, r.m.IDText(), r.m.Splice(r.toAgentEdits(r.m)...), pending{
		answer: func(a acp.Message) {
			if !r.box.add(len(a.Line), func() { r.nativeAnswered(proc, a) }) {
				r.proxy.toClient(a.Line) // the session was forgotten
			}
		},
		ended: func() {
			if !r.box.add(0, func() { r.nativeFailed(errAgentEnded) }) {
				r.proxy.failWith(r.m, agentEnded())
			}
		},
	})
	return nil
}

// nativeAnswered completes a request that the agent served.
func (r *openRequest) nativeAnswered(proc *process, a acp.Message) {
	replayed := r.collecting
	r.collecting = nil
	if e := a.Err(); e != nil {
		if r.record.Foreign && r.record.Thread == "" { // only the agent knows whether it has the session
			r.proxy.forget(r.session)
			r.answer(a)
			return
		}
		r.nativeFailed(e)
		return
	}
	r.loaded(proc, a)
	if replayed != nil {
		replayed.endTurn()
		r.showLost(replayed)
	}
	r.touch()
	r.failOpenCalls()
	r.answer(a)
	r.nativeOpened(proc)
}

// showLost compares the agent's replay with the record, and shows the client the turns that
// the agent has lost.
func (r *openRequest) showLost(replayed *replayReader) {
	if r.record.Thread == "" {
		r.history = replayed
		return
	}
	complete := replayed.isComplete()
	if !complete {
		r.logf("session %s no longer has all of its turns", r.up)
		r.broken, r.unusable[r.up] = true, true // makes the next prompt use another session
		if err := r.replay(r.proxy.ctx, replayed); err != nil {
			r.logf("show the turns that the agent has lost: %v", err)
		}
	}
	// If the agent did not replay its prompt, replay has shown the interrupted turn.
	if turn := r.interrupted; turn != nil && (complete || replayed.hasPrompt(turn.Prompt)) {
		if err := r.replayMissing(r.proxy.ctx, turn, replayed); err != nil {
			r.logf("show the interrupted turn: %v", err)
		}
	}
}

// nativeOpened repeats the client's choices of mode, model and options. The client has
// received the agent's answer with the agent's defaults; nativeOpened then sends it the
// choices in effect.
func (r *openRequest) nativeOpened(proc *process) {
	ctx, end := r.wait()
	defer end()
	r.proxy.logErr(r.replaySettings(context.WithoutCancel(ctx), proc))
	if r.preface = nil; r.record.Thread != "" {
		st, err := r.state(ctx)
		if err == nil {
			err = r.prefaceUnseen(ctx, st, st.isUnprompted())
		}
		r.proxy.logErr(err)
	}
	r.showSettings()
	r.announceCommands()
	r.reportWriter(ctx)
}

// reportWriter warns if a process of the agent's own command line tool has the session open, because
// agents do not lock their sessions.
func (r *openRequest) reportWriter(ctx context.Context) {
	if pid := r.proxy.Place.OpenElsewhere(ctx, r.up); pid > 0 {
		r.report("process %d has this session open, too, and each of the two loses the turns of the other; end one of them, then 'segno sessions heal %s --join' puts the turns into one conversation", pid, r.up)
	}
}

// nativeFailed serves the request through the recovery ladder, after the agent refused it or
// ended before its answer.
func (r *openRequest) nativeFailed(why error) {
	r.broken, r.collecting = true, nil
	if errors.Is(why, errAgentEnded) {
		r.process = nil
	}
	ctx, end := r.wait()
	defer end()
	r.openRecovered(ctx)
}

// openRecovered opens a session through the recovery ladder. For a session/load, it replays
// the thread from the store.
func (r *openRequest) openRecovered(ctx context.Context) {
	defer r.deferReports()()
	_, err := r.attach(ctx, "resume")
	if err != nil && r.record.Foreign && r.record.Thread == "" {
		r.proxy.forget(r.session)
	}
	if err == nil && r.load && r.record.Thread != "" {
		err = r.replay(ctx, nil)
	}
	if err != nil {
		r.proxy.fail(r.m, err)
		return
	}
	r.touch()
	r.proxy.toClient(acp.Result(r.m.IDText(), r.openResult(nil)))
	r.showSettings()
	r.announceCommands()
}
