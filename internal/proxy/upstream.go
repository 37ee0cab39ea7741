package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// upstream is the agent's session behind a client's session, with the state that the proxy knows of it.
type upstream struct {
	up      segno.SessionID // the agent's id; set by [proxy.announce]
	process *process        // has the session loaded; nil if none has
	broken  bool            // the agent has lost the session
	fresh   bool            // the agent opened it after the last turn
	known   segno.CommitID  // the newest turn that the session certainly has

	fidelity     segno.Fidelity // how the session was continued
	fromPreamble bool           // it has the conversation as a preamble, from which the agent makes its title
	knowsPrompt  bool           // the replay contained the prompt of the turn under way

	openParams json.RawMessage // the client's params of opening the session
	result     acp.Message     // the agent's answer to opening it
	options    json.RawMessage // the options after [session.replaySettings]
	commands   json.RawMessage // the slash commands that the agent announced last

	preface    []string           // text that the agent receives before the next prompt
	unfinished *preamble.OpenTurn // the turn to send again, for a session that does not have it

	muteMu sync.Mutex
	mute   func(acp.Message) // consumes the agent's updates while it replays for the proxy
	mutes  int               // counts the calls of setMute

	// opening is set while the session's goroutine waits for the agent to open the session. The
	// agent's requests then bypass the mailbox, and belong to no turn.
	opening atomic.Bool
}

// loaded records that a process has opened the session.
func (u *upstream) loaded(proc *process, m acp.Message) {
	u.process, u.broken, u.fresh, u.result = proc, false, true, m
}

// consumeMuted consumes an update of a replay that the client did not ask for. The goroutine
// that reads the agent calls it.
func (u *upstream) consumeMuted(m acp.Message) bool {
	u.muteMu.Lock()
	defer u.muteMu.Unlock()
	if u.mute == nil {
		return false
	}
	u.mute(m)
	return true
}

// setMute sets the function that consumes updates, nil for none. On return, no call of the previous
// function is under way. The result is for replaceMute.
func (u *upstream) setMute(f func(acp.Message)) (n int) {
	u.muteMu.Lock()
	defer u.muteMu.Unlock()
	u.mutes++
	u.mute = f
	return u.mutes
}

// newestMute returns the result of the newest call of setMute.
func (u *upstream) newestMute() int {
	u.muteMu.Lock()
	defer u.muteMu.Unlock()
	return u.mutes
}

// replaceMute replaces the function of the call of setMute that returned n. It does nothing if setMute was called again, or if the session
// forwards updates again.
func (u *upstream) replaceMute(n int, f func(acp.Message)) {
	u.muteMu.Lock()
	defer u.muteMu.Unlock()
	if u.mutes == n && u.mute != nil {
		u.mute = f
	}
}

// params returns the client's params for opening the session, changed for a session of the agent. The MCP
// servers and other options must be the same in each session that replaces it.
func (s *session) params(up segno.SessionID, more map[string]any) json.RawMessage {
	params := map[string]any{"mcpServers": []any{}}
	for k, v := range members(s.openParams) {
		params[k] = v
	}
	params["cwd"] = s.record.Dir
	if delete(params, "sessionId"); up != "" {
		params["sessionId"] = up
	}
	maps.Copy(params, more)
	return acp.Encode(params)
}

// openResult is the agent's answer to opening the session, for the client. If meta is not nil, it also
// has the client's session id, and meta as segno's metadata.
func (s *session) openResult(meta map[string]any) json.RawMessage {
	result := members(s.result.Result.Of(s.result.Line))
	delete(result, "sessionId")
	if meta != nil {
		all := members(result["_meta"])
		all["segno"] = acp.Encode(meta)
		result["_meta"] = acp.Encode(all)
		result["sessionId"] = acp.Encode(string(s.id))
	}
	return acp.Encode(result)
}

// Errors in the form of an agent's answer, for requests that the proxy does not send because it knows the
// answer.
var (
	errIncomplete = &acp.Error{Code: acp.CodeNotFound, Message: "the session no longer has all of its turns"}
	errCannotOpen = &acp.Error{Code: acp.CodeMethodNotFound, Message: "the agent cannot resume sessions"}
)

// meaningOf classifies the agent's answer to a request.
func (p *proxy) meaningOf(method string, answer *acp.Error) failure.Meaning {
	id := p.agent.identity()
	return failure.Classify(failure.Outcome{Agent: id.Name, Version: id.Version, Method: method, Err: answer, OutputTokens: -1})
}

// isFinalRefusal reports whether the agent's refusal to open a session applies to every other way to open
// one: the agent asks for a login, or another process has the session.
func (p *proxy) isFinalRefusal(err error) bool {
	answer, ok := errors.AsType[*acp.Error](err)
	if !ok || answer == errIncomplete || answer == errCannotOpen {
		return false
	}
	meaning := p.meaningOf("session/resume", answer)
	return meaning.Session == failure.Kept && meaning.Turn == failure.Failed
}

// isSharedByClients reports whether the agent refuses a session because the agent of another client, behind
// another segno, has it open. Agents like Codex let only one process at a time use a session. The thread
// has the turns of the other client, so that this client can continue in a copy.
func (s *session) isSharedByClients(ctx context.Context, err error) bool {
	answer, ok := errors.AsType[*acp.Error](err)
	if !ok || s.proxy.meaningOf("session/resume", answer).Name != failure.BusySession {
		return false
	}
	runners, err := s.proxy.store.Spool().Runners(ctx, s.record.Thread)
	return err == nil && slices.ContainsFunc(runners, func(r spool.Runner) bool {
		return r.PID != os.Getpid() && proc.Alive(r.PID, r.Start)
	})
}

// reopen makes the agent resume or load one of its sessions; the client receives nothing of the replay.
// last is the turn that the session must have, nil if none. at is the position that its transcript must
// have, nil if none is known. An agent that accepts an id may still lack the conversation: if segno
// cannot read the transcript, the agent must replay the conversation. The error is an [*acp.Error] if the
// agent refuses or has lost the session.
func (s *session) reopen(ctx context.Context, proc *process, up segno.SessionID, last *segno.Checkpoint, at *segno.Position) error {
	id := s.proxy.agent.identity()
	if !id.Resume && !id.Load {
		return errCannotOpen
	}
	if last != nil && last.Session.Session != up {
		last = nil
	}
	s.knowsPrompt = false
	verified, err := s.verifyTranscript(ctx, up, at)
	if err != nil {
		return err
	}
	s.proxy.announce(s, up, nil)
	var m acp.Message
	if !id.Load || verified && id.Resume && s.collecting == nil {
		if m, err = s.callOpen(ctx, proc, "session/resume", up, nil); isAnswer(err) && id.Load {
			m, err = s.callOpen(ctx, proc, "session/load", up, nil)
		}
	} else {
		m, err = s.loadVerified(ctx, proc, up, last, verified)
	}
	if err != nil {
		return err
	}
	s.loaded(proc, m)
	return s.replaySettings(context.WithoutCancel(ctx), proc)
}

// loadVerified makes the agent load a session. Unless verified is set, it checks that the agent replays
// the turns that the session must have.
func (s *session) loadVerified(ctx context.Context, proc *process, up segno.SessionID, last *segno.Checkpoint,
	verified bool) (m acp.Message, err error) {
	reader := s.collecting
	if reader == nil {
		if reader, err = s.expectTurns(ctx, up, last); err != nil {
			return m, err
		}
	}
	if m, err = s.callOpen(ctx, proc, "session/load", up, reader); err != nil || verified {
		return m, err
	}
	if !reader.isComplete() {
		return m, errIncomplete
	}
	s.knowsPrompt = s.turn != nil && reader.endsWith(s.turn.prompt)
	return m, nil
}

// transcriptVerifier is implemented by transcripts that can compare a session with a
// recorded position in it.
type transcriptVerifier interface {
	BeginsWith(ctx context.Context, src segno.Source, p segno.Position) (bool, error)
}

// verifyTranscript reports whether a session is known to have the recorded turns: its transcript
// has the bytes up to at, or the agent is segno's. It returns errIncomplete if the transcript lacks
// them, or if there is none and the session may lack its preamble.
func (s *session) verifyTranscript(ctx context.Context, up segno.SessionID, at *segno.Position) (verified bool, err error) {
	tl, err := s.timeline(ctx)
	if err != nil {
		return false, err
	}
	t := tl.Transcripts[s.record.Agent]
	if t == nil && s.proxy.agent.identity().isSegno() {
		return true, nil
	}
	if t == nil {
		has, err := s.hasEarlierTurns(ctx, up)
		if err == nil && !has {
			err = errIncomplete
		}
		return false, err
	}
	v, ok := t.(transcriptVerifier)
	if !ok || at == nil {
		return true, nil
	}
	holds, err := v.BeginsWith(ctx, segno.Source{Session: up, Dir: s.record.Dir}, *at)
	switch {
	case err != nil:
		s.logf("the transcript of session %s cannot be compared with the recorded turns: %v", up, err)
	case !holds:
		s.logf("the transcript of session %s no longer begins with the recorded turns", up)
	}
	if err != nil || !holds {
		return true, errIncomplete
	}
	return true, nil
}

// callOpen makes the agent open a session with the client's params. The client receives nothing of a
// replay; reader, if not nil, does. If callOpen returns before the agent's answer, the rest of the replay
// reaches neither. Meanwhile the agent may wait for answers to its requests: while
// opening is set, these requests bypass the mailbox.
func (s *session) callOpen(ctx context.Context, proc *process, method string, up segno.SessionID,
	reader *replayReader) (acp.Message, error) {
	s.opening.Store(true)
	defer s.opening.Store(false)
	if method != "session/load" {
		n := s.newestMute() // of a load that was abandoned
		return s.proxy.agent.call(ctx, proc, method, s.params(up, nil), func() { s.replaceMute(n, nil) })
	}
	discard := func(acp.Message) {}
	observe := discard
	if reader != nil {
		observe = reader.observe
	}
	n := s.setMute(observe)
	m, err := s.proxy.agent.call(ctx, proc, method, s.params(up, nil), func() { s.replaceMute(n, nil) })
	if errors.Is(err, errAgentEnded) {
		s.replaceMute(n, nil)
	} else {
		s.replaceMute(n, discard) // unless the agent has answered, its replay goes on
	}
	return m, err
}

// openNew makes the agent create a session, with the client's params and choices.
func (s *session) openNew(ctx context.Context, proc *process) (segno.SessionID, error) {
	defer s.proxy.beginOpening()()
	m, err := s.callOpen(ctx, proc, "session/new", "", nil)
	if err != nil {
		return "", fmt.Errorf("make a new session: %w", err)
	}
	up := segno.SessionID(m.SessionID())
	if up == "" {
		return "", segno.Errorf(segno.KindInvalid, "make a new session", "", "the agent returned no session id")
	}
	s.proxy.announce(s, up, nil)
	s.loaded(proc, m)
	s.announceCommands()
	return up, s.replaySettings(context.WithoutCancel(ctx), proc)
}

// unload makes the agent close the session, so that the agent reads it again when it opens it. unload
// reports whether the agent did.
func (s *session) unload(ctx context.Context, proc *process) bool {
	if !s.proxy.agent.identity().Close {
		return false
	}
	_, err := s.proxy.agent.call(ctx, proc, "session/close", acp.Encode(map[string]any{"sessionId": s.up}), nil)
	return err == nil
}
