package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/internal/preamble"
)

// session is one session as its client knows it. All but the mailbox, the id and
// what muting and cancelling guard belongs to the lane: to its goroutine, or to the one that
// makes a step for it (see [mailbox.now]).
type session struct {
	proxy *proxy
	id    segno.SessionID // the client's
	up    segno.SessionID // the agent's; the lane's, see announce
	box   *mailbox

	page      page
	opened    json.RawMessage // the params the client opened it with
	forgotten bool            // it turned out to be of no session
	thread    segno.ThreadID
	lease     segno.Lease // while a turn runs
	at        segno.CommitID
	story     *preamble.Builder // of the thread up to at
	from      string            // of a fork: the directory its conversation so far speaks of
	history   *history          // the turns from before segno, until there is a thread to hold them

	loaded
	left map[segno.SessionID]bool // sessions whose place another took: they may hold half a turn
	gone map[segno.SessionID]bool // sessions the agent says it has, and does not know when prompted
	tell []string                 // what the agent is told before the next prompt

	again bool // our own agent may have the prompt that is written to it now

	turn  *turn
	late  *turn         // the turn before, if the spool did not take all that was noted of it
	queue []acp.Message // prompts that wait for the turn under way

	showing

	muting   sync.Mutex
	mute     func(acp.Message) // takes the agent's updates while a replay of ours runs
	opensNow bool              // the lane waits for the agent to open the session

	cancelling sync.Mutex
	cancel     context.CancelFunc // of what the lane waits for
	wanted     bool               // a cancel is on its way to the lane
	unwanted   []string           // the keys of requests whose cancels are
}

// loaded is what the agent's process holds of a session, and how it came to.
type loaded struct {
	on      *process        // that has it, nil if none has
	broken  bool            // the agent has lost it
	fresh   bool            // it was opened anew since the last turn
	has     segno.CommitID  // the newest turn that it is known to have
	heir    bool            // it knows of the conversation by a preamble: what the agent makes a title of is ours
	result  acp.Message     // the agent's answer to opening it
	options json.RawMessage // what the agent said of its options when it was told the client's choices again
	theirs  json.RawMessage // the commands the agent announced last

	gained      segno.Fidelity     // how it was gained
	knowsPrompt bool               // it was seen to have the prompt of the turn under way
	unfinished  *preamble.OpenTurn // the turn that is taken up again, for a session that does not know it
}

// showing is a client's being shown the conversation.
type showing struct {
	listens   bool // the agent replays the turns from before segno
	calls     openCalls
	rest      *rest    // of the newest turn, which the agent may not replay in full; nil if it will
	shown     *prompts // of what the agent replays, nil if that does not matter
	replaying bool
	reports   []string // for when it is over
}

// fromClient does what one message of the client asks for.
func (s *session) fromClient(m acp.Message) {
	if s.forgotten {
		s.proxy.toSession(m)
		return
	}
	switch method := m.MethodName(); method {
	case "session/load", "session/resume":
		s.open(m)
	case "session/fork":
		s.fork(m)
	case "session/close":
		s.close(m)
	case "session/delete":
		s.delete(m)
	case "session/prompt":
		s.prompt(m)
	case "session/cancel":
		s.cancelTurn()
	case "session/set_mode", "session/set_model", "session/set_config_option":
		s.set(m)
	default:
		if strings.HasPrefix(method, "_segno/") {
			s.extension(m)
			return
		}
		s.passOn(m, nil)
	}
}

// outward are the edits that hide the agent's session id behind the client's, and
// add what only the proxy offers.
func (s *session) outward(m acp.Message) []acp.Edit {
	var edits []acp.Edit
	if s.up != s.id {
		with := acp.Encode(string(s.id))
		for _, at := range []acp.Span{m.Session, m.Find(m.Error, "data", "sessionId"), m.Find(m.Error, "data", "uri"),
			m.Find(m.Params, "message", "session_id")} {
			if !at.IsZero() && m.Text(at) == string(s.up) {
				edits = append(edits, acp.Edit{At: at, With: with})
			}
		}
		if at := m.Find(m.Error, "message"); strings.Contains(m.Text(at), string(s.up)) {
			edits = append(edits, acp.Edit{At: at, With: acp.Encode(strings.ReplaceAll(m.Text(at), string(s.up), string(s.id)))})
		}
	}
	switch m.Text(m.Find(m.Params, "update", "sessionUpdate")) {
	case "available_commands_update":
		edits = append(edits, offerCommands(m)...)
	case "session_info_update":
		if title := m.Find(m.Params, "update", "title"); s.heir && m.Text(title) != "" {
			edits = append(edits, acp.Edit{At: title, With: acp.Encode(s.page.Title)})
		}
	}
	return edits
}

// inward are the edits that put the agent's session id in the client's place.
func (s *session) inward(m acp.Message) []acp.Edit {
	if s.up == s.id || s.up == "" {
		return nil
	}
	return []acp.Edit{{At: m.Session, With: acp.Encode(string(s.up))}}
}

// update looks at what the agent says of the session and passes it on.
func (s *session) update(m acp.Message) {
	if s.shown != nil {
		s.shown.hear(m)
	}
	s.observe(m)
	if theirs := m.Find(m.Params, "update", "availableCommands"); !theirs.IsZero() {
		s.theirs = append(json.RawMessage(nil), theirs.Of(m.Line)...)
	}
	_ = s.proxy.client.WriteLater(m.Splice(s.outward(m)...)) // as toClient
}

// updateNow is update where the agent is read. What must wait is left to the lane: what the
// client does not take at once, and what changes a page, which is a file.
func (s *session) updateNow(m acp.Message) (rest letter) {
	switch m.Text(m.Find(m.Params, "update", "sessionUpdate")) {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update":
	default:
		return letter{do: func() { s.update(m) }, size: len(m.Line), update: true}
	}
	if s.shown != nil {
		s.shown.hear(m)
	}
	s.observe(m)
	line := m.Splice(s.outward(m)...)
	if s.proxy.client.TryWrite(line) {
		return letter{}
	}
	return letter{do: func() { _ = s.proxy.client.WriteLater(line) }, size: len(line), update: true}
}

// muted takes an update while a replay that the client did not ask for runs. It is
// called where the agent is read.
func (s *session) muted(m acp.Message) bool {
	s.muting.Lock()
	defer s.muting.Unlock()
	if s.mute == nil {
		return false
	}
	s.mute(m)
	return true
}

func (s *session) setMute(f func(acp.Message)) {
	s.muting.Lock()
	defer s.muting.Unlock()
	s.mute = f
}

// waiting returns a context for what the lane waits for: the client's cancel ends
// it, and while it lasts the agent does not wait for the lane.
func (s *session) waiting() (context.Context, func()) {
	ctx, cancel := context.WithCancel(s.proxy.ctx)
	s.cancelling.Lock()
	if s.cancel = cancel; s.wanted {
		cancel()
	}
	s.cancelling.Unlock()
	narrow := s.box.widen()
	return ctx, func() {
		narrow()
		s.cancelling.Lock()
		s.cancel = nil
		s.cancelling.Unlock()
		cancel()
	}
}

// opening marks that the lane waits for the agent to open the session: what the agent
// asks then goes past the lane, and is of no turn.
func (s *session) opening() (opened func()) {
	s.setOpens(true)
	return func() { s.setOpens(false) }
}

func (s *session) setOpens(yes bool) {
	s.muting.Lock()
	defer s.muting.Unlock()
	s.opensNow = yes
}

// isOpening reports whether it does. Any goroutine may call it.
func (s *session) isOpening() bool {
	s.muting.Lock()
	defer s.muting.Unlock()
	return s.opensNow
}

// cancelSoon ends what the lane waits for, now and until it comes to the cancel. Any
// goroutine may call it.
func (s *session) cancelSoon() {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if s.wanted = true; s.cancel != nil {
		s.cancel()
	}
}

// cancelDone says that the lane has come to the cancel itself.
func (s *session) cancelDone() {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	s.wanted = false
}

// setUnwanted notes that the cancel of a request is on its way to the lane, or that it has
// come there. Any goroutine may call it.
func (s *session) setUnwanted(key string, unwanted bool) {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if unwanted {
		s.unwanted = append(s.unwanted, key)
	} else if i := slices.Index(s.unwanted, key); i >= 0 {
		s.unwanted = slices.Delete(s.unwanted, i, i+1)
	}
}

// isUnwanted reports whether the cancel of a request is on its way to the lane.
func (s *session) isUnwanted(m acp.Message) bool {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	return slices.Contains(s.unwanted, m.CanonicalID())
}

// passOn forwards a message of the session that the proxy has no part in. then, if
// not nil, sees the agent's answer before the client does.
func (s *session) passOn(m acp.Message, then func(acp.Message)) { s.passOnce(m, then, false) }

// passOnce forwards a message, and once more in another session if the agent has lost
// the one it was for.
func (s *session) passOnce(m acp.Message, then func(acp.Message), again bool) {
	proc, err := s.ready()
	if err != nil {
		s.fail(m, err)
		return
	}
	line := m.Splice(s.inward(m)...)
	if !m.IsRequest() {
		proc.write(s.box, line)
		return
	}
	proc.sendFrom(s.box, m.IDText(), line, s.answer(m, then, again))
}

// passNow is passOn where the client is read, of a message that the proxy has no part in.
// What must wait is left to the lane: having the session loaded, and an agent that does
// not take the message at once.
func (s *session) passNow(m acp.Message) (rest letter) {
	proc := s.readyNow()
	if proc == nil {
		return letter{do: func() { s.fromClient(m) }}
	}
	line := m.Splice(s.inward(m)...)
	if m.IsRequest() {
		expected := false
		if line, expected = proc.expect(m.IDText(), line, s.answer(m, nil, false)); !expected {
			return letter{}
		}
	}
	if proc.in.TryWrite(line) {
		return letter{}
	}
	return letter{do: func() { proc.write(s.box, line) }}
}

// answer is what happens when the agent answers a message that was passed on. then and
// again are those of passOnce.
func (s *session) answer(m acp.Message, then func(acp.Message), again bool) pending {
	ended := func() { s.proxy.toClient(acp.Failure(m.IDText(), agentEnded())) }
	return pending{gone: ended, answer: func(a acp.Message) {
		whole := letter{size: len(a.Line), do: func() {
			if !again && s.turn == nil && s.lost(m, a) {
				s.broken = true
				s.passOnce(m, then, true)
				return
			}
			if then != nil {
				then(a)
			}
			s.proxy.toClient(a.Splice(s.outward(a)...))
		}}
		s.box.now(whole, func() letter {
			if then != nil || a.Err() != nil || !s.proxy.client.TryWrite(a.Splice(s.outward(a)...)) {
				return whole
			}
			return letter{}
		})
	}}
}

// lost reports whether an answer says that the agent does not have the session.
func (s *session) lost(m, a acp.Message) bool {
	id := s.proxy.agent.identity()
	return a.Err() != nil && failure.Classify(failure.Outcome{Agent: id.Name, Version: id.Version, Method: m.MethodName(),
		Err: a.Err(), OutputTokens: -1}).Session == failure.Lost
}

// readyNow returns the process that has the session loaded, nil if that has to be found
// out.
func (s *session) readyNow() *process {
	opened := s.turn == nil && s.thread == "" && s.page.Client != "" && !s.broken && s.on == s.proxy.agent.current()
	if s.forgotten || s.on == nil || s.on.isGone() || s.turn == nil && !opened {
		return nil
	}
	return s.on
}

// ready returns the process that has the session loaded, and has it loaded first
// if there is none.
func (s *session) ready() (*process, error) {
	if s.turn != nil && s.on != nil && !s.on.isGone() {
		return s.on, nil // a session is not changed under its turn
	}
	ctx, done := s.waiting()
	defer done()
	return s.attach(ctx, recovery)
}
