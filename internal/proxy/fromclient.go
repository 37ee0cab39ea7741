package proxy

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// fromClient reads the client until it closes its side.
func (p *proxy) fromClient() {
	in := acp.NewReader(p.Stdin)
	for {
		line, err := in.Next()
		if errors.Is(err, acp.ErrTooLong) {
			p.logf("a message of the client is longer than 64 MiB and was dropped")
			id, _ := acp.IDOfPrefix(line)
			p.toClient(acp.Failure(id, invalidRequest(err.Error())))
			continue
		}
		if err != nil {
			return
		}
		m, err := acp.Parse(line)
		if bad, ok := errors.AsType[*acp.Error](err); ok {
			p.malformedLine(line, bad)
		} else if err == nil {
			p.handleClient(m)
		}
	}
}

// malformedLine answers a line of the client that is not a message, and handles the messages
// inside it. If only a newline is missing, the client waits for the answers to those
// messages.
func (p *proxy) malformedLine(line []byte, bad *acp.Error) {
	found, pure := []acp.Message(nil), 0
	if bad.Code == acp.CodeParse {
		found, pure = acp.ExtractMessages(line)
	}
	if len(found) == 0 {
		id, _ := acp.IDOfPrefix(line)
		p.toClient(acp.Failure(id, bad))
		return
	}
	if pure < len(found) {
		p.toClient(acp.Failure("", bad))
	}
	for _, m := range found {
		p.handleClient(m)
	}
}

// handleClient forwards or serves one message of the client.
func (p *proxy) handleClient(m acp.Message) {
	if p.closing.Load() {
		return
	}
	if m.IsResponse() {
		p.answerFromClient(m)
		return
	}
	if bad := invalid(m); bad != nil && m.IsRequest() {
		p.failWith(m, bad)
		return
	}
	method := m.MethodName()
	switch {
	case method == "initialize":
		p.initialize(m)
		return
	case !p.ready.Load():
		p.failWith(m, invalidRequest("initialize comes first"))
		return
	case !m.IsRequest() && method != "session/cancel" && (strings.HasPrefix(method, "session/") || method == "authenticate"):
		p.logf("the client sent %s without an id; it cannot be answered and was dropped", method)
		return
	}
	switch method {
	case "session/new":
		p.newSession(m)
	case "session/list":
		p.work.Go(func() { p.listSessions(m) })
	case "authenticate":
		p.withAgent(m, func(proc *process) { p.authenticate(proc, m) })
	case "$/cancel_request":
		p.cancelRequest(m)
	default:
		p.toSession(m)
	}
}

// invalid returns an error for a request that the proxy cannot serve, else nil. The agent
// may not answer a request under an invalid id. It would also resolve a relative directory
// against its own working directory, which differs from the client's.
func invalid(m acp.Message) *acp.Error {
	if !acp.IsID(m.IDText()) {
		return invalidRequest("the id must be a string, a number or null")
	}
	switch method := m.MethodName(); method {
	case "session/new", "session/load", "session/resume", "session/fork", "session/list":
		at := m.Find(m.Params, "cwd")
		if text := at.Of(m.Line); text != nil && string(text) != "null" && !filepath.IsAbs(m.Text(at)) {
			return clientError(segno.Errorf(segno.KindInvalid, method, "", "cwd must be an absolute path, not %s", excerpt(text)).
				WithHint("give the absolute path of the directory"))
		}
	}
	return nil
}

// toSession adds a message to the mailbox of its session. A message without a known session
// goes to the agent unchanged.
func (p *proxy) toSession(m acp.Message) {
	method := m.MethodName()
	isExtension := strings.HasPrefix(method, "_segno/")
	s := p.sessionOf(m)
	switch {
	case s != nil:
	case isExtension:
		p.fail(m, segno.Errorf(segno.KindNotFound, method, m.SessionID(), "no such session"))
		return
	case method == "session/fork" && m.IsRequest(): // of a session that only the agent knows
		p.newSession(m)
		return
	default:
		p.forwardUnknown(m)
		return
	}
	if method == "session/cancel" {
		s.setCancel(true)
	}
	handle, added := step{do: func() { s.fromClient(m) }}, false
	if isExtension || strings.HasPrefix(method, "session/") {
		added = s.box.push(handle)
	} else {
		added = s.box.addOrRun(handle, func() step { return s.forwardNow(m) })
	}
	if !added && !p.closing.Load() {
		p.toSession(m) // the session was forgotten meanwhile
	}
}

// sessionOf returns the session that a message of the client names, nil if it is unknown.
// If the session is known and not open, sessionOf opens it.
func (p *proxy) sessionOf(m acp.Message) *session {
	id, method := segno.SessionID(m.SessionID()), m.MethodName()
	s := p.session(id)
	isOpen := method == "session/load" || method == "session/resume"
	if s == nil && id != "" && (isOpen || p.index.has(id) || p.hasThread(id)) {
		return p.openSession(id)
	}
	return s
}

// forwardUnknown forwards a message that names no known session.
func (p *proxy) forwardUnknown(m acp.Message) {
	if m.IsRequest() {
		p.withAgent(m, func(proc *process) { p.forward(proc, m, func(a acp.Message) { p.toClient(a.Line) }) })
	} else if proc := p.agent.current(); proc != nil {
		proc.write(nil, m.Line)
	}
}

// forward writes a request of the client to the agent. The goroutine that reads the agent
// calls answer. If the agent ends first, forward answers the client.
func (p *proxy) forward(proc *process, m acp.Message, answer func(acp.Message)) {
	proc.send(nil, m.IDText(), m.Line, pending{answer: answer, ended: func() { p.failWith(m, agentEnded()) }})
}

// authenticate forwards the client's authentication, and keeps it in memory for the next
// process of the agent.
func (p *proxy) authenticate(proc *process, m acp.Message) {
	p.forward(proc, m, func(a acp.Message) {
		if a.Err() == nil {
			p.agent.mu.Lock()
			p.agent.auth = bytes.Clone(m.Params.Of(m.Line))
			p.agent.mu.Unlock()
		}
		p.toClient(a.Line)
	})
}

// newSession forwards the client's request for a new session, or for a fork only the agent
// knows the session. The client keeps the session id that the agent gives.
func (p *proxy) newSession(m acp.Message) {
	end := p.beginOpening()
	p.work.Go(func() {
		proc, err := p.agent.running(p.ctx)
		if err != nil {
			p.fail(m, err)
			end()
			return
		}
		proc.send(nil, m.IDText(), m.Line, pending{
			answer: func(a acp.Message) {
				p.newSessionAnswered(proc, m, a)
				end()
			},
			ended: func() {
				p.failWith(m, agentEnded())
				end()
			},
		})
	})
}

// newSessionAnswered makes the session of an agent's answer. The session is recorded before
// the client receives its id.
func (p *proxy) newSessionAnswered(proc *process, m, a acp.Message) {
	up := segno.SessionID(a.SessionID())
	if a.Err() != nil || up == "" {
		p.toClient(a.Line)
		return
	}
	id := up
	if p.index.has(up) || p.hasThread(up) {
		p.logf("the agent gave a session the id of an earlier one; the client gets another id")
		id = segno.SessionID(segno.NewID())
	}
	s := p.openSession(id)
	p.announce(s, up, func() { s.created(proc, m, a) })
}

// cancelRequest forwards the client's cancellation of a request. It also informs the
// sessions, for two reasons: a session must not send a prompt that it is still recording,
// and the agent knows a prompt that was sent again under another id.
func (p *proxy) cancelRequest(m acp.Message) {
	key := acp.CanonicalID(string(m.Find(m.Params, "requestId").Of(m.Line)))
	for _, s := range p.allSessions() {
		s.setCancelled(key, true)
		s.box.add(0, func() { s.cancelPrompt(key) })
	}
	if proc := p.agent.current(); proc != nil {
		proc.write(nil, m.Line)
	}
}

// answerFromClient forwards the client's answer to the process that asked. If the process
// has ended, the answer is dropped.
func (p *proxy) answerFromClient(m acp.Message) {
	p.mu.Lock()
	q := p.asked[m.CanonicalID()]
	delete(p.asked, m.CanonicalID())
	p.mu.Unlock()
	if q == nil {
		if m.IDText() != "null" {
			p.logf("the client answered request %s, which does not exist", excerpt(m.ID.Of(m.Line)))
		}
		return
	}
	line := m.WithID(q.id).Line
	if q.session == nil {
		q.proc.write(nil, line)
		return
	}
	q.session.box.add(0, func() {
		if q.isCancelled() {
			line = cancelledPermission(q.id)
			if late, err := acp.Parse(line); err == nil {
				m = late
			}
		}
		q.session.clientAnswered(q, m)
		q.proc.write(q.session.box, line)
	})
}
