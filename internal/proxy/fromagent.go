package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// clientRequest is a request of the agent that the client has not answered yet.
type clientRequest struct {
	proc    *process
	id      string   // as the agent wrote it
	as      string   // the id that the client received, if that differs after a clash
	session *session // nil if the proxy does not know the session
	turn    *turn    // in which the agent asked; nil if the session had none
	method  string

	permission string // the id of its entry, if it asks for permission
}

// fromAgent reads one process of the agent until it ends.
func (p *proxy) fromAgent(proc *process) {
	in := acp.NewReader(proc.out)
	for {
		line, err := in.Next()
		proc.lines.Add(1)
		if errors.Is(err, acp.ErrTooLong) {
			p.logf("a message of the agent is longer than 64 MiB and was dropped")
			p.dropped(proc, line, "the agent's answer is longer than 64 MiB")
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.logf("reading the agent: %v", err)
			}
			break
		}
		m, err := acp.Parse(line)
		if err != nil || m.ID.IsZero() && m.Method.IsZero() {
			p.logf("the agent wrote a line that is not a message: %s", excerpt(line))
			if err != nil {
				p.salvage(proc, line)
			}
			continue
		}
		p.handleAgent(proc, m, in.HasMore())
	}
	proc.end()
	p.agentGone(proc)
}

// salvage handles the messages in a line of the agent that is not JSON. After text that is
// not a message, salvage handles only expected answers and requests to clients, because a
// log may quote other messages.
func (p *proxy) salvage(proc *process, line []byte) {
	found, pure := acp.ExtractMessages(line)
	for i, m := range found {
		_, isExpected := proc.lookup(m.IDText())
		if i < pure || m.IsResponse() && isExpected || m.IsRequest() && isClientMethod(m.MethodName()) {
			p.handleAgent(proc, m, true)
		}
	}
	if len(found) == 0 {
		p.dropped(proc, line, "the agent's answer is not JSON")
	}
}

// isClientMethod reports whether agents send requests of this method to clients.
func isClientMethod(method string) bool {
	return slices.ContainsFunc([]string{"session/request_permission", "fs/", "terminal/", "elicitation/"},
		func(prefix string) bool { return strings.HasPrefix(method, prefix) })
}

// dropped fails the request whose answer the proxy could not read. head is the beginning of
// that answer.
func (p *proxy) dropped(proc *process, head []byte, why string) {
	if id, isRequest := acp.IDOfPrefix(head); !isRequest {
		proc.fail(id, why)
	}
}

// excerpt is the beginning of a line or an id, made printable for the log.
func excerpt(line []byte) string {
	return printable.Inline(strings.ToValidUTF8(strings.TrimSpace(string(line[:min(len(line), 80)])), "?"))
}

// lostAnswer is the error of a request whose answer seems to have come under another id.
const lostAnswer = "the agent answered with the id of another request and then stopped"

// strayAnswer handles an answer under an id that no request has. If the id is invalid and
// only one request is open, the answer was meant for that request. Otherwise the agent may
// have sent an answer twice and may still answer the open requests, so these fail only if
// the agent falls silent.
func (p *proxy) strayAnswer(proc *process, id string) {
	p.logf("the agent answered request %s, which does not exist", excerpt([]byte(id)))
	waiting := proc.unanswered()
	if !acp.IsID(id) && len(waiting) == 1 {
		proc.fail(waiting[0], "the agent answered with an invalid id")
		return
	}
	for _, id := range waiting {
		switch w, ok := proc.lookup(id); {
		case ok && w.doubted != nil:
			w.doubted(func() { proc.fail(id, lostAnswer) })
		case ok:
			p.watchSilence(proc, id)
		}
	}
}

// watchSilence fails a request if the agent writes nothing at all for some time. As long as
// the agent writes anything, watchSilence waits again, so that a slow agent does not count as
// broken.
func (p *proxy) watchSilence(proc *process, id string) {
	lines := proc.lines.Load()
	time.AfterFunc(cmp.Or(p.strayWait, answerWait), func() {
		switch _, isOpen := proc.lookup(id); {
		case !isOpen || p.ctx.Err() != nil:
		case proc.lines.Load() != lines:
			p.watchSilence(proc, id)
		default:
			proc.fail(id, lostAnswer)
		}
	})
}

// handleAgent forwards one message of the agent. more reports that the next message was
// already read.
func (p *proxy) handleAgent(proc *process, m acp.Message, more bool) {
	switch {
	case m.IsResponse():
		if w, ok := proc.take(m.IDText()); ok {
			w.answer(m.WithID(w.id))
		} else if m.IDText() == "null" {
			p.toClient(m.Line) // the agent could not read a line
		} else if !strings.HasPrefix(m.IDText(), `"segno:`) {
			p.strayAnswer(proc, m.IDText())
		}
	case m.SessionID() != "":
		p.sessionMessage(proc, m, more)
	case m.IsRequest():
		p.askClient(proc, nil, m)
	case m.MethodName() == "$/cancel_request":
		p.cancelledByAgent(proc, m)
	default:
		p.toClient(m.Line)
	}
}

// cancelledByAgent forwards the agent's cancellation of its request, with the id that the client knows.
func (p *proxy) cancelledByAgent(proc *process, m acp.Message) {
	at := m.Find(m.Params, "requestId")
	id := acp.CanonicalID(string(at.Of(m.Line)))
	var edits []acp.Edit
	p.mu.Lock()
	for _, q := range p.asked {
		if q.proc == proc && q.as != q.id && acp.CanonicalID(q.id) == id {
			edits = []acp.Edit{{At: at, With: []byte(q.as)}}
		}
	}
	p.mu.Unlock()
	p.toClient(m.Splice(edits...))
}

// sessionMessage adds a message of the agent to the mailbox of its session. While a session
// is being made, sessionMessage holds the updates of unknown sessions until the client has
// received the new session's id.
func (p *proxy) sessionMessage(proc *process, m acp.Message, more bool) {
	p.mu.Lock()
	s := p.upstream[segno.SessionID(m.SessionID())]
	if s == nil && p.opening > 0 && !m.IsRequest() {
		p.held = append(p.held, m)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	switch {
	case s == nil && m.IsRequest():
		p.askClient(proc, nil, m)
	case s == nil:
		p.toClient(m.Line) // a child session of the agent
	case m.IsRequest() && s.opening.Load():
		// The session's goroutine waits for the agent, which may wait for this answer.
		p.askClient(proc, nil, m, acp.Edit{At: m.Session, With: acp.Encode(string(s.id))})
	case m.IsRequest():
		s.box.add(len(m.Line), func() { s.agentAsks(proc, m) })
	case s.consumeMuted(m):
	case more:
		s.box.addUpdate(len(m.Line), func() { s.update(m) })
	default:
		s.box.addOrRun(step{do: func() { s.update(m) }, size: len(m.Line), update: true}, func() step { return s.updateNow(m) })
	}
}

// askClient forwards a request of the agent to the client. It replaces an invalid id, and an
// id under which the client still has an open request: a restarted process may reuse the ids
// of the previous one.
func (p *proxy) askClient(proc *process, s *session, m acp.Message, edits ...acp.Edit) {
	q := &clientRequest{proc: proc, id: m.IDText(), as: m.IDText(), session: s, method: m.MethodName(), permission: permissionID(m)}
	p.mu.Lock()
	if _, taken := p.asked[acp.CanonicalID(q.as)]; taken || !acp.IsID(q.as) {
		q.as = p.agent.newID()
		edits = append(edits, acp.Edit{At: m.ID, With: []byte(q.as)})
	}
	p.asked[acp.CanonicalID(q.as)] = q
	p.mu.Unlock()
	if s != nil {
		q.turn = s.turn
		edits = append(edits, s.toClientEdits(m)...)
	}
	p.toClient(m.Splice(edits...))
}

// agentGone cancels the requests and the open tool calls of an agent that has ended.
func (p *proxy) agentGone(proc *process) {
	p.mu.Lock()
	var open []*clientRequest
	for _, q := range p.asked {
		if q.proc == proc {
			open = append(open, q)
		}
	}
	p.mu.Unlock()
	if p.closing.Load() {
		return
	}
	p.logf("the agent's process ended (start %d)", proc.n)
	for _, s := range p.allSessions() {
		s.box.add(0, func() {
			if s.process == proc && s.turn == nil {
				s.failOpenCalls()
			}
		})
	}
	for _, q := range open {
		p.toClient(acp.Notification("$/cancel_request", acp.Encode(map[string]any{"requestId": json.RawMessage(q.as)})))
	}
}
