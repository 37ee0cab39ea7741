package proxy

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// asking is a request of the agent that the client owes an answer.
type asking struct {
	proc   *process
	id     string   // as the agent wrote it
	of     *session // whose it is, nil if nobody's
	method string
	as     string // the id the client was given: the agent's own, but for a clash

	permission string // what its entry is called, if it asks for permission
}

// fromClientOne passes on one message of the client, or acts on it.
func (p *proxy) fromClientOne(m acp.Message) {
	if p.isClosing() {
		return
	}
	if m.IsResponse() {
		p.answerFromClient(m)
		return
	}
	if bad := malformed(m); bad != nil && m.IsRequest() {
		p.toClient(acp.Failure(m.IDText(), bad))
		return
	}
	method := m.MethodName()
	switch {
	case method == "initialize":
		p.initialize(m)
		return
	case !p.isReady():
		if m.IsRequest() {
			p.toClient(acp.Failure(m.IDText(), &acp.Error{Code: acp.CodeInvalidRequest, Message: "Invalid request: initialize comes first"}))
		}
		return
	}
	if !m.IsRequest() && method != "session/cancel" && (strings.HasPrefix(method, "session/") || method == "authenticate") {
		p.logf("the client sent %s without an id, which nobody could answer", method)
		return
	}
	switch method {
	case "session/new":
		p.begin()
		p.work.Go(func() { p.newSession(m) })
	case "session/list":
		p.work.Go(func() { p.listSessions(m) })
	case "authenticate":
		p.work.Go(func() { p.authenticate(m) })
	case "$/cancel_request":
		p.cancelRequest(m)
	default:
		p.toSession(m)
	}
}

// malformed is what is wrong with a request of the client, nil if it can be served. An
// agent may not answer a request under an invalid id; and it takes a relative directory
// for one below its own, which is not the client's.
func malformed(m acp.Message) *acp.Error {
	if !acp.IsID(m.IDText()) {
		return &acp.Error{Code: acp.CodeInvalidRequest, Message: "Invalid request: the id must be a string, a number or null"}
	}
	switch method := m.MethodName(); method {
	case "session/new", "session/load", "session/resume", "session/fork", "session/list":
		at := m.Find(m.Params, "cwd")
		if text := at.Of(m.Line); text == nil || string(text) == "null" || filepath.IsAbs(m.Text(at)) {
			return nil
		}
		return refusal(segno.Errorf(segno.KindInvalid, method, "", "cwd must be an absolute path, not %s", excerpt(at.Of(m.Line))).WithHint("give the whole path of the directory"))
	}
	return nil
}

// toSession hands a message to the lane of its session; what names none, or one
// nobody knows, goes to the agent as it is.
func (p *proxy) toSession(m acp.Message) {
	id := segno.SessionID(m.SessionID())
	method := m.MethodName()
	s := p.lane(id)
	if s == nil && id != "" && (method == "session/load" || method == "session/resume" || p.book.has(id) || p.knows(id)) {
		s = p.newLane(id)
	}
	if s == nil && strings.HasPrefix(method, "_segno/") {
		if m.IsRequest() {
			p.toClient(acp.Failure(m.IDText(), refusal(segno.Errorf(segno.KindNotFound, method, string(id), "no such session"))))
		}
		return
	}
	if s == nil && method == "session/fork" && m.IsRequest() { // of a session that only the agent knows
		p.begin()
		p.work.Go(func() { p.newSession(m) })
		return
	}
	if s == nil {
		p.pass(m)
		return
	}
	if method == "session/cancel" {
		s.cancelSoon()
	}
	step := letter{do: func() { s.fromClient(m) }}
	taken := false
	if strings.HasPrefix(method, "session/") || strings.HasPrefix(method, "_segno/") {
		taken = s.box.add(step)
	} else {
		taken = s.box.now(step, func() letter { return s.passNow(m) })
	}
	if !taken && !p.isClosing() {
		p.toSession(m) // it was forgotten just now
	}
}

// knows reports whether some thread has held a session.
func (p *proxy) knows(id segno.SessionID) bool {
	for _, err := range p.store.Threads(p.ctx, segno.ThreadQuery{Session: id, Limit: 1}) {
		return err == nil
	}
	return false
}

// pass forwards a message that is of no session of ours.
func (p *proxy) pass(m acp.Message) {
	if !m.IsRequest() {
		if proc := p.agent.current(); proc != nil {
			_ = proc.in.Write(m.Line)
		}
		return
	}
	p.work.Go(func() {
		proc, err := p.agent.running(p.ctx)
		if err != nil {
			p.toClient(acp.Failure(m.IDText(), refusal(err)))
			return
		}
		p.forward(proc, m, m.Line, func(a acp.Message) { p.toClient(a.Line) })
	})
}

// forward writes a request of the client to the agent. answer is called by the
// goroutine that reads the agent; an agent that ends first is answered for here.
func (p *proxy) forward(proc *process, m acp.Message, line []byte, answer func(acp.Message)) {
	proc.send(m.IDText(), line, pending{answer: answer, gone: func() {
		p.toClient(acp.Failure(m.IDText(), agentEnded()))
	}})
}

func agentEnded() *acp.Error {
	return &acp.Error{Code: acp.CodeInternal, Message: "segno: the agent's process ended before it answered; ask again",
		Data: acp.Encode(map[string]any{"segno": map[string]any{"kind": "io", "restartable": true}})}
}

// fromAgent reads one process of the agent until it ends.
func (p *proxy) fromAgent(proc *process) {
	in := acp.NewReader(proc.out)
	for {
		line, err := in.Next()
		proc.heard.Add(1)
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
		if err != nil || (m.ID.IsZero() && m.Method.IsZero()) {
			p.logf("the agent wrote what is no message: %s", excerpt(line))
			if err != nil {
				p.salvage(proc, line)
			}
			continue
		}
		p.fromAgentOne(proc, m, in.HasMore())
	}
	proc.kill()
	proc.stdin.Close()
	proc.out.Close()
	proc.leave()
	p.agentGone(proc)
}

// salvage serves the messages in a line of the agent's that is no JSON. Behind something
// that is not a message, only awaited answers count: a log may quote other messages.
func (p *proxy) salvage(proc *process, line []byte) {
	found, pure := acp.ExtractMessages(line)
	for i, m := range found {
		if i < pure || m.IsResponse() && proc.expects(m.IDText()) || m.IsRequest() && asksClient(m.MethodName()) {
			p.fromAgentOne(proc, m, true)
		}
	}
	if len(found) == 0 {
		p.dropped(proc, line, "the agent's answer is no JSON")
	}
}

// asksClient reports whether a method is one that agents ask of clients.
func asksClient(method string) bool {
	for _, prefix := range []string{"session/request_permission", "fs/", "terminal/", "elicitation/"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	return false
}

// dropped answers for a message of the agent of which only the beginning can be read, if
// it was an answer.
func (p *proxy) dropped(proc *process, head []byte, why string) {
	if id, asks := acp.IDOfPrefix(head); !asks {
		proc.fail(id, why)
	}
}

// strayed deals with an answer under an id that no request has. An invalid id was meant
// for some request; an id that was used before may be an answer that came twice, and what
// is waited for now may still come.
func (p *proxy) strayed(proc *process, id string) {
	p.logf("the agent answered %s, which nobody asked", excerpt([]byte(id)))
	waiting := proc.waiting()
	if len(waiting) == 0 {
		return
	}
	if !acp.IsID(id) && len(waiting) == 1 {
		proc.fail(waiting[0], "the agent answered under an id that is none")
		return
	}
	p.watchSilence(proc, slices.DeleteFunc(waiting, func(id string) bool {
		w, ok := proc.owed(id)
		if ok && w.doubted != nil {
			w.doubted(func() { proc.fail(id, lostAnswer) })
		}
		return w.doubted != nil
	}))
}

// lostAnswer is why a request fails whose answer seems to have come under another id.
const lostAnswer = "the agent answered under the id of another request, and fell silent"

// watchSilence fails requests if the agent says nothing at all for some time.
func (p *proxy) watchSilence(proc *process, waiting []string) {
	heard := proc.heard.Load()
	time.AfterFunc(cmp.Or(p.strayWait, answerWait), func() {
		waiting = slices.DeleteFunc(waiting, func(id string) bool { return !proc.expects(id) })
		switch {
		case len(waiting) == 0 || p.ctx.Err() != nil:
		case proc.heard.Load() != heard:
			p.watchSilence(proc, waiting)
		default:
			for _, id := range waiting {
				proc.fail(id, lostAnswer)
			}
		}
	})
}

// excerpt is the beginning of a line, for the log: a line that is no message may
// hold anything, and much of it.
func excerpt(line []byte) string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(line[:min(len(line), 80)])), "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}

// fromAgentOne passes on one message of the agent. more says that another one is there
// already.
func (p *proxy) fromAgentOne(proc *process, m acp.Message, more bool) {
	switch {
	case m.IsResponse():
		if w, ok := proc.take(m.IDText()); ok {
			w.answer(m.WithID(w.id))
		} else if m.IDText() == "null" {
			p.toClient(m.Line) // a complaint about a line it could not read
		} else if !strings.HasPrefix(m.IDText(), `"segno:`) {
			p.strayed(proc, m.IDText())
		}
	case m.SessionID() == "":
		if m.IsRequest() {
			p.askClient(proc, nil, m)
			return
		}
		p.toClient(m.Line)
	default:
		p.sessionMessage(proc, m, more)
	}
}

// sessionMessage hands what the agent says of a session to its lane. Of a session
// that is being made it is held until the client knows it. more says that another message
// is there already.
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
	case s != nil && m.IsRequest() && s.isOpening():
		// The lane waits for the agent, which may wait for this.
		p.askClient(proc, nil, m, acp.Edit{At: m.Session, With: acp.Encode(string(s.id))})
	case s != nil && !m.IsRequest() && s.muted(m):
	case s != nil && m.IsRequest():
		s.box.put(len(m.Line), func() { s.asks(proc, m) })
	case s != nil && more: // what follows is written with it
		s.box.putUpdate(len(m.Line), func() { s.update(m) })
	case s != nil:
		s.box.now(letter{do: func() { s.update(m) }, size: len(m.Line), update: true}, func() letter { return s.updateNow(m) })
	case m.IsRequest():
		p.askClient(proc, nil, m)
	default:
		p.toClient(m.Line) // a child session of the agent's own
	}
}

// begin and done enclose a request that makes a session.
func (p *proxy) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening++
}

func (p *proxy) done() {
	p.mu.Lock()
	var rest []acp.Message
	if p.opening--; p.opening == 0 {
		rest, p.held = p.held, nil
	}
	p.mu.Unlock()
	for _, m := range rest {
		p.toClient(m.Line) // of nobody's session
	}
}

// announce makes a session one of ours; what was held of it goes to its lane
// behind first.
func (p *proxy) announce(s *session, up segno.SessionID, first func()) {
	p.mu.Lock()
	if s.up != "" && p.upstream[s.up] == s && s.up != up {
		delete(p.upstream, s.up)
	}
	s.up = up
	p.upstream[up] = s
	if s.id != "" { // a fork has no id until it is made
		p.lanes[s.id] = s
	}
	var mine, rest []acp.Message
	for _, m := range p.held {
		if segno.SessionID(m.SessionID()) == up {
			mine = append(mine, m)
		} else {
			rest = append(rest, m)
		}
	}
	p.held = rest
	// The lane gets them before the reader may give it a newer one.
	if first != nil {
		s.box.put(0, first)
	}
	for _, m := range mine {
		s.box.putUpdate(0, func() { s.update(m) })
	}
	p.mu.Unlock()
}

// askClient passes a request of the agent on to the client. Its id is left as it
// is, but for two cases: a process that was started again may use an id for which
// the client still owes the one before it an answer, and it may use an invalid id.
func (p *proxy) askClient(proc *process, s *session, m acp.Message, edits ...acp.Edit) {
	q := &asking{proc: proc, id: m.IDText(), of: s, method: m.MethodName(), as: m.IDText(), permission: permission(m)}
	p.mu.Lock()
	if _, taken := p.asked[acp.CanonicalID(q.as)]; taken || !acp.IsID(q.as) {
		q.as = p.agent.ownID()
		edits = append(edits, acp.Edit{At: m.ID, With: []byte(q.as)})
	}
	p.asked[acp.CanonicalID(q.as)] = q
	p.mu.Unlock()
	if s != nil {
		edits = append(edits, s.outward(m)...)
	}
	p.toClient(m.Splice(edits...))
}

// answerFromClient passes the client's answer on to the process that asked. The
// process may be gone; the answer then is nobody's.
func (p *proxy) answerFromClient(m acp.Message) {
	p.mu.Lock()
	q := p.asked[m.CanonicalID()]
	delete(p.asked, m.CanonicalID())
	p.mu.Unlock()
	if q == nil {
		if m.IDText() != "null" {
			p.logf("the client answered %s, which nobody asked", excerpt(m.ID.Of(m.Line)))
		}
		return
	}
	line := m.WithID(q.id).Line
	if q.of == nil {
		_ = q.proc.in.Write(line)
		return
	}
	q.of.box.put(0, func() {
		q.of.answered(q, m)
		q.proc.write(q.of.box, line)
	})
}

// agentGone tells the client that nobody waits for its answers, and each session
// that its agent ended.
func (p *proxy) agentGone(proc *process) {
	p.mu.Lock()
	var open []*asking
	for _, q := range p.asked {
		if q.proc == proc {
			open = append(open, q)
		}
	}
	closing := p.closing
	p.mu.Unlock()
	if closing {
		return
	}
	p.logf("the agent's process ended (start %d)", proc.n)
	for _, s := range p.allLanes() {
		s.box.put(0, func() {
			if s.on == proc && s.turn == nil {
				s.closeCalls()
			}
		})
	}
	for _, q := range open {
		p.toClient(acp.Notification("$/cancel_request", acp.Encode(map[string]any{"requestId": rawID(q.as)})))
	}
}

// lane returns the session a client's id stands for, nil if there is none yet.
func (p *proxy) lane(id segno.SessionID) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lanes[id]
}

// allLanes returns the lanes of all sessions that are open.
func (p *proxy) allLanes() []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.lanes))
}

// newLane makes the lane of a client's session.
func (p *proxy) newLane(id segno.SessionID) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.lanes[id]; s != nil {
		return s
	}
	s := &session{proxy: p, id: id, box: newMailbox(p.flushClient), gone: map[segno.SessionID]bool{}, left: map[segno.SessionID]bool{}}
	p.lanes[id] = s
	if p.closing {
		s.box.close()
	}
	p.work.Go(s.box.run)
	return s
}

func (p *proxy) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

func (p *proxy) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}
