package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/preamble"
)

// session is one session as its client knows it. All but the mailbox, the id and
// what stop guards belongs to the lane's goroutine.
type session struct {
	proxy *proxy
	id    segno.SessionID // the client's
	up    segno.SessionID // the agent's; guarded by proxy.mu, written by the lane
	box   *mailbox
	ctx   context.Context

	page      page
	opened    json.RawMessage          // the params the client opened it with
	result    acp.Message              // the agent's newest answer to opening it
	options   json.RawMessage          // what it said of its options when it was told the client's choices again
	theirs    json.RawMessage          // the commands the agent announced last
	on        *process                 // that has the session loaded, nil if none has
	broken    bool                     // the agent has lost it
	forgotten bool                     // it turned out to be of no session
	gone      map[segno.SessionID]bool // sessions the agent says it has, and does not know when prompted
	fresh     bool                     // it was opened anew since the last turn
	has       segno.CommitID           // the newest turn that the loaded session is known to have
	heir      bool                     // the agent knows of the conversation by a preamble: what it makes a title of is ours
	from      string                   // of a fork: the directory its conversation so far speaks of

	thread segno.ThreadID
	at     segno.CommitID // where the story ends
	story  *preamble.Story
	lease  segno.Lease
	tell   []string // what the agent is told before the next prompt

	gained      segno.Fidelity     // how the session was gained that was attached last
	knowsPrompt bool               // the session that was reopened last has the prompt of the turn under way
	unfinished  *preamble.OpenTurn // the turn that is taken up again, for a session that does not know it

	turn  *turn
	queue []acp.Message // prompts that wait for the turn under way

	shown     *prompts // of what the agent replays to the client, nil if that does not matter
	replaying bool     // the client is being shown the conversation
	reports   []string // for when it has been

	muting   sync.Mutex
	mute     func(acp.Message) // takes the agent's updates while a replay of ours runs
	opensNow bool              // the lane waits for the agent to open the session

	cancelling sync.Mutex
	cancel     context.CancelFunc // of what the lane waits for
	wanted     bool               // a cancel is on its way to the lane
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
		s.cancelTurn(m)
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
	_ = s.proxy.client.Keep(m.Splice(s.outward(m)...)) // as toClient
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
	ctx, cancel := context.WithCancel(s.ctx)
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

// cancelSoon ends what the lane waits for, now and until it comes to the cancel. Any goroutine may call it.
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

// fail answers a request with an error of ours.
func (s *session) fail(m acp.Message, err error) {
	if m.IsRequest() {
		s.proxy.toClient(acp.Failure(m.IDText(), refusal(err)))
	}
}

// reply answers a request.
func (s *session) reply(m acp.Message, result any) {
	if m.IsRequest() {
		s.proxy.toClient(acp.Result(m.IDText(), acp.Encode(result)))
	}
}

// say sends the client an update of ours.
func (s *session) say(update map[string]any) {
	s.proxy.toClient(acp.Notification("session/update", acp.Encode(map[string]any{"sessionId": s.id, "update": update})))
}

// report tells the client's user one line.
func (s *session) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if s.replaying {
		s.reports = append(s.reports, line)
		return
	}
	s.proxy.logf("%s: %s", brief(s.id), line)
	s.proxy.mu.Lock()
	notices := s.proxy.notices
	s.proxy.mu.Unlock()
	if notices {
		s.say(map[string]any{"sessionUpdate": "notice", "severity": "warning", "title": "segno: " + line})
		return
	}
	s.say(spoken("segno: " + line + "\n\n"))
}

// reportLater keeps reports until the client has been shown the conversation that
// they are about; call the result then.
func (s *session) reportLater() (now func()) {
	s.replaying = true
	return func() {
		reports := s.reports
		s.replaying, s.reports = false, nil
		for _, line := range reports {
			s.report("%s", line)
		}
	}
}

// spoken is an update that a client shows as the agent's words.
func spoken(text string) map[string]any {
	return map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}}
}

// passOn forwards a message of the session that the proxy has no part in. then, if
// not nil, sees the agent's answer before the client does.
func (s *session) passOn(m acp.Message, then func(acp.Message)) {
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
	ended := func() { s.proxy.toClient(acp.Failure(m.IDText(), agentEnded())) }
	proc.sendFrom(s.box, m.IDText(), line, pending{gone: ended, answer: func(a acp.Message) {
		s.box.put(len(a.Line), func() {
			if then != nil {
				then(a)
			}
			s.proxy.toClient(a.Splice(s.outward(a)...))
		})
	}})
}

// ready returns the process that has the session loaded, and has it loaded first
// if there is none.
func (s *session) ready() (*process, error) {
	if s.turn != nil && s.on != nil && !s.on.isGone() {
		return s.on, nil // a session is not changed under its turn
	}
	ctx, done := s.waiting()
	defer done()
	return s.attach(ctx, "recovery")
}

// set passes on a choice of the client's and remembers it for the sessions that
// follow this one.
func (s *session) set(m acp.Message) {
	s.passOn(m, func(a acp.Message) {
		if a.Err() == nil {
			s.keepSetting(m.MethodName(), m.Text(m.Find(m.Params, "configId")), m.Params.Of(m.Line))
		}
	})
}

func (s *session) keepSetting(method, key string, params json.RawMessage) {
	kept := s.page.Settings[:0:0]
	for _, old := range s.page.Settings {
		if old.Method != method || old.Key != key {
			kept = append(kept, old)
		}
	}
	s.page.Settings = append(kept, setting{Method: method, Key: key, Params: chosen(params)})
	s.remember()
}

// chosen are the params of a choice that say what was chosen. What else a client put
// there is between it and the agent, and may be a secret.
func chosen(params json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return json.RawMessage("{}")
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool {
		return !slices.Contains([]string{"modeId", "modelId", "configId", "value", "type"}, key)
	})
	return acp.Encode(all)
}

// remember writes the session's page. That it could not be written matters to the
// next run only, and is logged.
func (s *session) remember() {
	s.page.Used = s.proxy.Place.Now()
	if err := s.proxy.book.write(s.page); err != nil {
		s.proxy.logf("%v", err)
	}
}

// close ends the session in the agent; its thread stays.
func (s *session) close(m acp.Message) {
	s.end(m, s.proxy.agent.identity().Close)
}

// delete ends the session, in the agent too if that can, and takes it off the
// lists. Its thread stays in 'segno threads': nothing is truncated.
func (s *session) delete(m acp.Message) {
	if err := s.settle(); err != nil {
		s.fail(m, err)
		return
	}
	s.page.Deleted = true
	s.remember()
	if s.turn != nil {
		s.cancelTurn(acp.Message{})
	}
	if s.proxy.agent.identity().Delete {
		s.deleteSessions()
	}
	s.on = nil
	s.reply(m, struct{}{})
}

// deleteSessions has the agent delete every session that the thread has held. What
// it does not have is deleted.
func (s *session) deleteSessions() {
	ctx, done := s.waiting()
	defer done()
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		s.proxy.logf("%s: delete: %v", brief(s.id), err)
		return
	}
	ids := []segno.SessionID{s.page.Upstream}
	if s.thread != "" {
		ids = nil
		for l, err := range s.proxy.store.Chain(ctx, s.thread) {
			if err == nil && l.Agent == s.page.Agent && !slices.Contains(ids, l.Session) {
				ids = append(ids, l.Session)
			}
		}
	}
	for _, id := range ids {
		if _, err := s.proxy.agent.call(ctx, proc, "session/delete", acp.Encode(map[string]any{"sessionId": id}), nil); err != nil && !isAnswer(err) {
			s.proxy.logf("%s: delete: %v", brief(s.id), err)
			return
		}
	}
}

func (s *session) end(m acp.Message, agentCan bool) {
	if s.turn != nil {
		s.cancelTurn(acp.Message{})
	}
	if proc := s.proxy.agent.current(); agentCan && proc != nil && s.on == proc && !s.broken {
		// That the agent has lost the session, or is gone, is no reason to keep it open.
		ended := func() { s.reply(m, struct{}{}) }
		proc.sendFrom(s.box, m.IDText(), m.Splice(s.inward(m)...), pending{gone: ended, answer: func(a acp.Message) {
			if a.Err() != nil {
				ended()
				return
			}
			s.box.put(0, func() { s.proxy.toClient(a.Splice(s.outward(a)...)) })
		}})
		s.on = nil
		return
	}
	s.on = nil
	s.reply(m, struct{}{})
}
