package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
)

// session is one session as its client knows it. Any goroutine may use the mailbox, the id,
// waits and the muting. The rest belongs to the session's goroutine, or to the goroutine that
// runs a step in its place, see [mailbox.addOrRun].
type session struct {
	proxy     *proxy
	id        segno.SessionID // the client's; "" for a fork that is not made yet
	box       *mailbox
	forgotten bool // the agent has no such session

	waits        // the waits of the session's goroutine
	sessionStore // the session in the store and in the index
	upstream     // the agent's session
	display      // the conversation in the client

	turn    *turn
	unsaved *turn         // the newest ended turn of which the spool did not accept all entries, nil if there is none
	prompts []acp.Message // prompts that wait for the turn under way to end
}

func newSession(p *proxy) *session {
	return &session{proxy: p, box: newMailbox(func() { _ = p.client.Flush() }),
		sessionStore: sessionStore{proxy: p, replaced: map[segno.SessionID]bool{}, unusable: map[segno.SessionID]bool{}}}
}

func (s *session) load() error { return s.sessionStore.load(s.id) }

// fromClient serves one message of the client.
func (s *session) fromClient(m acp.Message) {
	if s.forgotten {
		s.proxy.toSession(m)
		return
	}
	if err := s.serve(m); err != nil {
		s.proxy.fail(m, err)
	}
}

// serve serves a message. If it returns an error, the caller answers the request with it.
func (s *session) serve(m acp.Message) error {
	switch method := m.MethodName(); method {
	case "session/load", "session/resume":
		return s.open(m)
	case "session/fork":
		return s.fork(m)
	case "session/close":
		s.close(m)
	case "session/delete":
		return s.delete(m)
	case "session/prompt":
		return s.prompt(m)
	case "session/cancel":
		s.cancelTurn()
	case "session/set_mode", "session/set_model", "session/set_config_option":
		return s.set(m)
	default:
		if strings.HasPrefix(method, "_segno/") {
			return s.extension(m)
		}
		return s.forward(m, nil, false)
	}
	return nil
}

// created is the first step of a session that the agent made. The session is recorded before
// the client receives its id.
func (s *session) created(proc *process, m, a acp.Message) {
	now := s.proxy.Place.Now()
	up := segno.SessionID(a.SessionID())
	s.openParams = withoutExtensions(m)
	s.record = sessionRecord{Client: s.id, Agent: s.proxy.agent.name(), Upstream: up, Dir: cwd(m), Opened: now, Used: now,
		Foreign: m.MethodName() == "session/fork"}
	if up != s.id {
		s.record.Name = string(s.id)
	}
	s.loaded(proc, a)
	s.fresh = false
	if err := s.save(); err != nil && !s.proxy.BestEffort {
		s.proxy.fail(m, err)
		return
	}
	s.answer(a)
	s.announceCommands()
}

// cwd is the directory that a request names, with symlinks resolved, because agents and
// workspaces resolve them too.
func cwd(m acp.Message) string {
	dir := m.Text(m.Find(m.Params, "cwd"))
	if resolved, err := filepath.EvalSymlinks(dir); err == nil && dir != "" {
		return resolved
	}
	return dir
}

// withoutExtensions returns a request's params without the metadata for the proxy.
func withoutExtensions(m acp.Message) json.RawMessage {
	params := members(m.Params.Of(m.Line))
	if meta := members(params["_meta"]); len(meta) > 0 {
		delete(meta, "segno")
		delete(meta, "jetbrains")
		params["_meta"] = acp.Encode(meta)
	}
	return acp.Encode(params)
}

// toClientEdits are the edits that replace the agent's session id by the client's, and add the
// proxy's commands. They replace the id only in the fields where the protocol and known agents
// put it. Other text that contains the id stays.
func (s *session) toClientEdits(m acp.Message) []acp.Edit {
	var edits []acp.Edit
	if up, id := string(s.up), string(s.id); up != id {
		for _, at := range []acp.Span{m.Session, m.Find(m.Error, "data", "sessionId"), m.Find(m.Error, "data", "uri"),
			m.Find(m.Params, "message", "session_id")} {
			if !at.IsZero() && m.Text(at) == up {
				edits = append(edits, acp.Edit{At: at, With: acp.Encode(id)})
			}
		}
		if at := m.Find(m.Error, "message"); strings.Contains(m.Text(at), up) {
			edits = append(edits, acp.Edit{At: at, With: acp.Encode(strings.ReplaceAll(m.Text(at), up, id))})
		}
	}
	switch m.Text(m.Find(m.Params, "update", "sessionUpdate")) {
	case "available_commands_update":
		edits = append(edits, offerCommands(m)...)
	case "session_info_update":
		if title := m.Find(m.Params, "update", "title"); s.fromPreamble && m.Text(title) != "" {
			edits = append(edits, acp.Edit{At: title, With: acp.Encode(s.record.Title)})
		}
	}
	return edits
}

// toAgentEdits are the edits that replace the client's session id by the agent's.
func (s *session) toAgentEdits(m acp.Message) []acp.Edit {
	if s.up == s.id || s.up == "" {
		return nil
	}
	return []acp.Edit{{At: m.Session, With: acp.Encode(string(s.up))}}
}

// answer forwards an answer of the agent.
func (s *session) answer(a acp.Message) { s.proxy.toClient(a.Splice(s.toClientEdits(a)...)) }

// update observes an update of the agent and forwards it.
func (s *session) update(m acp.Message) {
	s.observe(m)
	if commands := m.Find(m.Params, "update", "availableCommands"); !commands.IsZero() {
		s.commands = bytes.Clone(commands.Of(m.Line))
	}
	_ = s.proxy.client.WriteLater(m.Splice(s.toClientEdits(m)...)) // see toClient
}

// updateNow is update for the goroutine that reads the agent. It returns the work that may
// block as a step for the mailbox: a write that the client does not take at once, and a change
// of the session's record, which is a file.
func (s *session) updateNow(m acp.Message) (rest step) {
	switch m.Text(m.Find(m.Params, "update", "sessionUpdate")) {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update":
	default:
		return step{do: func() { s.update(m) }, size: len(m.Line), update: true}
	}
	s.observe(m)
	line := m.Splice(s.toClientEdits(m)...)
	if s.proxy.client.TryWrite(line) {
		return step{}
	}
	return step{do: func() { _ = s.proxy.client.WriteLater(line) }, size: len(line), update: true}
}

// forward forwards a message that the proxy does not serve. onAnswer, if not nil, receives the
// agent's answer before the client does. If the agent has lost the session, forward sends the
// message again, in another session; isRetry is set on that second call.
func (s *session) forward(m acp.Message, onAnswer func(acp.Message), isRetry bool) error {
	proc, err := s.ready()
	if err != nil {
		return err
	}
	if line := m.Splice(s.toAgentEdits(m)...); m.IsRequest() {
		proc.send(s.box, m.IDText(), line, s.forwarded(m, onAnswer, isRetry))
	} else {
		proc.write(s.box, line)
	}
	return nil
}

// forwardNow is forward for the goroutine that reads the client. It returns the work that may
// block as a step for the mailbox: loading the session, and a write that the agent does not
// take at once.
func (s *session) forwardNow(m acp.Message) (rest step) {
	proc := s.readyNow()
	if proc == nil {
		return step{do: func() { s.fromClient(m) }}
	}
	line := m.Splice(s.toAgentEdits(m)...)
	if m.IsRequest() {
		expected := false
		if line, expected = proc.expect(m.IDText(), line, s.forwarded(m, nil, false)); !expected {
			return step{}
		}
	}
	if proc.in.TryWrite(line) {
		return step{}
	}
	return step{do: func() { proc.write(s.box, line) }}
}

// forwarded handles the answer to a message that forward wrote to the agent. If the mailbox is
// idle and the answer only needs forwarding, the goroutine that reads the agent writes it.
func (s *session) forwarded(m acp.Message, onAnswer func(acp.Message), isRetry bool) pending {
	return pending{ended: func() { s.proxy.failWith(m, agentEnded()) }, answer: func(a acp.Message) {
		handle := step{size: len(a.Line), do: func() {
			if e := a.Err(); e != nil && !isRetry && s.turn == nil && s.proxy.meaningOf(m.MethodName(), e).Session == failure.Lost {
				s.broken = true
				if err := s.forward(m, onAnswer, true); err != nil {
					s.proxy.fail(m, err)
				}
				return
			}
			if onAnswer != nil {
				onAnswer(a)
			}
			s.answer(a)
		}}
		s.box.addOrRun(handle, func() step {
			if onAnswer != nil || a.Err() != nil || !s.proxy.client.TryWrite(a.Splice(s.toClientEdits(a)...)) {
				return handle
			}
			return step{}
		})
	}}
}

// readyNow returns the process that has the session loaded, or nil if only the store or the
// agent could tell.
func (s *session) readyNow() *process {
	isCurrent := s.turn != nil || s.record.Thread == "" && s.record.Client != "" && !s.broken && s.process == s.proxy.agent.current()
	if s.forgotten || s.process == nil || s.process.isGone() || !isCurrent {
		return nil
	}
	return s.process
}

// ready returns the process that has the session loaded. If no process has, ready makes the
// agent load the session.
func (s *session) ready() (*process, error) {
	if s.turn != nil && s.process != nil && !s.process.isGone() {
		return s.process, nil // the session does not change within a turn
	}
	ctx, end := s.wait()
	defer end()
	return s.attach(ctx, reasonRecovery)
}

// logf logs a line about the session. Its id comes from the agent and may contain anything.
func (s *session) logf(format string, args ...any) {
	s.proxy.logf("%s: %s", excerpt([]byte(s.id)), fmt.Sprintf(format, args...))
}

// close ends the session in the agent, if the agent supports that. The thread stays.
func (s *session) close(m acp.Message) {
	s.disconnect()
	s.history = nil // the agent replays it again if the session continues
	proc := s.proxy.agent.current()
	if proc == nil || !s.proxy.agent.identity().Close || s.process != proc || s.broken {
		s.proxy.result(m, struct{}{})
		return
	}
	// A session also counts as closed if the agent has lost it or has ended.
	closed := func() { s.proxy.result(m, struct{}{}) }
	proc.send(s.box, m.IDText(), m.Splice(s.toAgentEdits(m)...), pending{ended: closed, answer: func(a acp.Message) {
		if a.Err() != nil {
			closed()
			return
		}
		s.box.add(0, func() { s.answer(a) })
	}})
	s.process = nil
}

// delete ends the session and removes it from the lists, and from the agent if the agent
// supports that. The thread stays in 'segno threads': session/delete removes no history.
func (s *session) delete(m acp.Message) error {
	if err := s.load(); err != nil {
		return err
	}
	deleted := s.record
	deleted.Deleted, deleted.Used = true, s.proxy.Place.Now()
	if err := s.replaceRecord(deleted); err != nil {
		return err
	}
	s.disconnect()
	if s.proxy.agent.identity().Delete {
		if err := s.deleteUpstream(); err != nil {
			s.logf("delete: %v", err)
		}
	}
	s.process = nil
	s.proxy.result(m, struct{}{})
	return nil
}

// deleteUpstream makes the agent delete every session of the thread's chain. A session that
// the agent does not have counts as deleted.
func (s *session) deleteUpstream() error {
	ctx, end := s.wait()
	defer end()
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		return err
	}
	ids := []segno.SessionID{s.record.Upstream}
	if s.record.Thread != "" {
		ids = nil
		for l, err := range s.proxy.store.Chain(ctx, s.record.Thread) {
			if err == nil && l.Agent == s.record.Agent && !slices.Contains(ids, l.Session) {
				ids = append(ids, l.Session)
			}
		}
	}
	for _, id := range ids {
		_, err := s.proxy.agent.call(ctx, proc, "session/delete", acp.Encode(map[string]any{"sessionId": id}), nil)
		if err != nil && !isAnswer(err) {
			return err
		}
	}
	return nil
}
