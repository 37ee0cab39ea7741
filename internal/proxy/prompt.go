package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// turn is a prompt of the client from its arrival to its answer.
type turn struct {
	m    acp.Message // the client's request
	key  segno.TurnKey
	text string // of the prompt

	lead       []string // what the agent was told before the prompt
	site       openSite // the workspace, once it was opened
	proc       *process // that was sent the prompt
	sentAs     string   // the id it was sent under
	unrecorded bool     // it could not be recorded, and the user said go on
	complained bool
	unwritten  []segno.Entry // entries that the spool did not take yet, oldest first
	cancelled  bool
	recoveries int
	answered   bool        // the agent had begun to answer before the turn was taken up again
	seen       bool        // the model has seen the prompt, as far as anybody knows
	begun      bool        // it is an open turn in the spool
	watch      *time.Timer // ends an agent that does not end the turn it was told to
	doubted    *time.Timer // ends the turn if its answer may have come under another id; nil if not
	signs      int         // how often the agent showed that it works on the turn
	renew      *time.Timer // of the lease
	lapse      sync.Mutex  // guards ended, and whether the lease is renewed
	ended      bool
	renewed    segno.Lease       // as it was renewed last
	onEnd      func()            // called once the turn is recorded; may be nil
	record     func(segno.Entry) // keeps what the agent says and does

	heard
	used        map[string]bool // ids of calls before the turn was taken up again
	count       int             // of messages that were noted whole
	partly      int             // how much of the message that is being said is noted
	partAt      time.Time       // when that was
	saySoon     func()          // has it noted soon; nil where a crash loses nothing
	messages    []string        // ids of all messages that had one
	callBehind  bool            // a tool call came behind the last of those
	plan, usage json.RawMessage // the newest
}

// heard is what came of a turn since its prompt was sent last.
type heard struct {
	answer      acp.Message // the agent's
	calls       map[string]*call
	updates     int
	said        []byte          // the end of all that was said
	saying      strings.Builder // since the last thing that was noted
	message     string          // the id of the message that is being said
	systemError bool            // codex says that the turn failed
}

// maxRecoveries is how often one turn is taken up again before the client is told
// that it failed.
const maxRecoveries = 3

// prompt begins a turn, or queues it: a session's turns do not overlap.
func (s *session) prompt(m acp.Message) {
	if s.turn != nil {
		s.queue = append(s.queue, m)
		return
	}
	text := promptText(m)
	if name, args, ok := command(typed(m)); ok {
		s.obey(m, name, args)
		return
	}
	s.run(m, text)
}

// run makes a turn of a prompt.
func (s *session) run(m acp.Message, text string) {
	if err := s.settle(); err != nil {
		s.fail(m, err)
		return
	}
	s.page.Deleted = false // who prompts it wants it
	t := &turn{m: m, key: segno.TurnKey(segno.NewID()), text: text, record: s.note, heard: heard{calls: map[string]*call{}}, used: map[string]bool{}}
	s.turn = t
	s.notesParts(t)
	ctx, done := s.waiting()
	proc, err := s.beginTurn(ctx, t)
	done()
	switch {
	case segno.KindOf(err) == segno.KindCancelled && s.proxy.ctx.Err() == nil, err == nil && s.isUnwanted(m):
		t.cancelled = true
		s.finish(acp.Result(m.IDText(), acp.Encode(map[string]any{"stopReason": "cancelled"})), failure.Meaning{Name: "cancelled", Turn: failure.Failed})
	case err != nil:
		s.finish(acp.Failure(m.IDText(), refusal(err)), failure.Meaning{Name: "not begun", Turn: failure.Failed, Message: err.Error()})
	default:
		s.send(proc, m.IDText(), m.Splice(s.promptEdits(m)...))
	}
}

// beginTurn records the prompt, with the thread standing on a live session.
func (s *session) beginTurn(ctx context.Context, t *turn) (*process, error) {
	if s.thread == "" && s.page.Foreign { // it gets a thread if the agent has it
		if _, err := s.attach(ctx, recovery); err != nil {
			return nil, err
		}
	}
	err := s.own(ctx, t)
	if err != nil {
		if !s.proxy.BestEffort || segno.KindOf(err) == segno.KindCancelled || isHeld(err) {
			return nil, fmt.Errorf("record the turn: %w", err)
		}
		t.unrecorded = true
		s.report("this turn is not recorded: %v", err)
		return s.attach(ctx, recovery)
	}
	proc, err := s.attach(ctx, recovery)
	if err != nil {
		return nil, err
	}
	begun, err := s.begin(ctx, t, proc)
	if err != nil && begun.Key == "" {
		if !s.proxy.BestEffort {
			return nil, fmt.Errorf("record the turn: %w", err)
		}
		t.unrecorded = true
		s.report("this turn is not recorded: %v", err)
		return proc, nil
	}
	if err != nil {
		s.proxy.logf("%v", err)
	}
	t.begun = true
	if begun.Tell != "" {
		s.tell = append(s.tell, begun.Tell)
	}
	if begun.Warn != "" {
		s.proxy.logf("%s", begun.Warn)
	}
	return proc, nil
}

// promptEdits are what changes in a prompt on its way to the agent: its session's
// id, and what the agent has to be told first.
func (s *session) promptEdits(m acp.Message) []acp.Edit {
	edits := s.inward(m)
	prompt := m.Find(m.Params, "prompt")
	if len(s.tell) == 0 && !s.again || prompt.IsZero() || m.Line[prompt.From] != '[' {
		return edits
	}
	told := map[string]any{"type": "text", "text": strings.Join(s.tell, "\n\n")}
	if s.proxy.agent.identity().ours() {
		told["_meta"] = map[string]any{"segno": map[string]any{"told": true, "again": s.again, "heard": s.again && s.turn.answered}}
	}
	block := string(acp.Encode(told))
	if rest := strings.TrimLeft(string(m.Line[prompt.From+1:prompt.To]), " \t\r\n"); !strings.HasPrefix(rest, "]") {
		block += ","
	}
	if s.turn != nil {
		s.turn.lead = s.tell
	}
	s.tell = nil
	at := prompt.From + 1
	return append(edits, acp.Edit{At: acp.Span{From: at, To: at}, With: []byte(block)})
}

// send writes a prompt to the agent. From here on it counts as seen.
func (s *session) send(proc *process, id string, line []byte) {
	t := s.turn
	t.proc, t.sentAs = proc, id
	proc.sendFrom(s.box, id, line, pending{
		answer:  func(a acp.Message) { s.box.put(len(a.Line), func() { s.turnAnswered(t, a, false) }) },
		gone:    func() { s.box.put(0, func() { s.turnAnswered(t, acp.Message{}, true) }) },
		doubted: func(fail func()) { s.box.put(0, func() { s.doubt(t, fail) }) },
	})
	if t.cancelled {
		s.passCancel()
	}
}

// turnAnswered ends the turn, or takes it up again if the agent failed in a way
// that allows it.
func (s *session) turnAnswered(t *turn, a acp.Message, exited bool) {
	if s.turn != t {
		return
	}
	if exited {
		s.on = nil
	}
	meaning := failure.Classify(s.outcome(t, a, exited))
	if meaning.Session != failure.Kept {
		s.broken = true
	}
	if meaning.Session == failure.Lost && meaning.Turn == failure.NotStarted && s.fresh {
		s.gone[s.up] = true // it was opened just now
	}
	if meaning.Turn != failure.Fine {
		s.proxy.logf("%s: %s: %s", brief(s.id), meaning.Name, meaning.Message)
	}
	if t.cancelled && (exited || a.Err() != nil) {
		s.finish(acp.Result(t.m.IDText(), acp.Encode(map[string]any{"stopReason": "cancelled"})), meaning)
		return
	}
	if (meaning.Turn == failure.NotStarted || meaning.Turn == failure.Seen) && !t.cancelled && !s.proxy.isClosing() {
		t.recoveries++
		if t.recoveries <= maxRecoveries {
			s.recover(t, meaning)
			return
		}
		meaning.Turn = failure.Failed
		if a.Line == nil {
			s.finish(acp.Failure(t.m.IDText(), agentEnded()), meaning)
			return
		}
	}
	if a.Line == nil {
		s.finish(acp.Failure(t.m.IDText(), agentEnded()), meaning)
		return
	}
	s.proxy.agent.worked()
	edits := s.outward(a)
	if t.sentAs != t.m.IDText() {
		edits = append(edits, acp.Edit{At: a.ID, With: []byte(t.m.IDText())})
	}
	t.answer = a
	s.finish(a.Splice(edits...), meaning)
}

// outcome is what the failure table looks at.
func (s *session) outcome(t *turn, a acp.Message, exited bool) failure.Outcome {
	id := s.proxy.agent.identity()
	o := failure.Outcome{Agent: id.Name, Version: id.Version, Method: "session/prompt", Exited: exited, OutputTokens: -1,
		Text: string(t.said), Tools: len(t.calls), Updates: t.updates, SystemError: t.systemError, Fresh: s.fresh}
	if exited {
		return o
	}
	o.Err = a.Err()
	o.Stop = a.Text(a.Find(a.Result, "stopReason"))
	failed := a.Find(a.Result, "_meta", "jetbrains", "air", "sessionFailure")
	o.Category, o.Title = a.Text(a.Find(failed, "category")), a.Text(a.Find(failed, "title"))
	if tokens := a.Find(a.Result, "usage", "outputTokens"); !tokens.IsZero() {
		_ = a.Decode(tokens, &o.OutputTokens) // what is no number is not told
	}
	return o
}

// finish makes the turn's end durable, then answers the client, then begins the
// next one that waits.
func (s *session) finish(line []byte, meaning failure.Meaning) {
	t := s.turn
	if t.letGo(); t.watch != nil {
		t.watch.Stop()
	}
	t.endDoubt()
	s.endTurn(t, meaning)
	if s.turn, s.late = nil, nil; len(t.unwritten) > 0 {
		s.late = t
	}
	if meaning.Session == failure.Kept {
		s.fresh = false // the agent knew the session
	}
	if meaning.Turn != failure.Fine && t.updates == 0 {
		s.tell = append(t.lead, s.tell...) // the model may not have been told
	}
	s.letOthers()
	s.closeCalls()
	s.proxy.toClient(line)
	if t.onEnd != nil {
		t.onEnd()
	}
	if len(s.queue) == 0 {
		if err := s.proxy.store.CompressSome(s.proxy.ctx); err != nil {
			s.proxy.logf("compress the store: %v", err)
		}
	}
	for s.turn == nil && len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.prompt(next)
	}
}

// cancelTurn passes the client's cancel on; the agent's answer ends the turn. An
// agent that does not answer is ended.
func (s *session) cancelTurn() {
	s.cancelDone()
	for _, m := range s.queue {
		s.reply(m, map[string]any{"stopReason": "cancelled"})
	}
	s.queue = nil
	if s.turn == nil || s.turn.proc == nil {
		return
	}
	s.turn.cancelled = true
	s.passCancel()
}

func (s *session) passCancel() {
	t := s.turn
	t.proc.write(s.box, acp.Notification("session/cancel", acp.Encode(map[string]any{"sessionId": s.up})))
	if t.watch == nil {
		t.watch = time.AfterFunc(cmp.Or(s.proxy.cancelWait, cancelWait), t.proc.kill)
	}
}

// cancelRequest passes on that the client does not want an answer any more. A prompt that
// is being recorded is not sent to the agent then, and of one that we took up again the
// agent knows another id.
func (p *proxy) cancelRequest(m acp.Message) {
	id := string(m.Find(m.Params, "requestId").Of(m.Line))
	for _, s := range p.allLanes() {
		s.setUnwanted(acp.CanonicalID(id), true)
		s.box.put(0, func() { s.cancelPrompt(acp.CanonicalID(id)) })
	}
	if proc := p.agent.current(); proc != nil {
		_ = proc.in.Write(m.Line)
	}
}

// cancelPrompt gives up the prompt with an id, where the agent cannot: it waits, or the
// agent knows it by another id. The others that wait go on.
func (s *session) cancelPrompt(key string) {
	s.setUnwanted(key, false)
	for i, m := range s.queue {
		if m.CanonicalID() == key {
			s.queue = slices.Delete(s.queue, i, i+1)
			s.proxy.toClient(acp.Failure(m.IDText(), &acp.Error{Code: acp.CodeCancelled, Message: "Request cancelled"}))
			return
		}
	}
	if t := s.turn; t != nil && t.m.CanonicalID() == key && t.proc != nil && acp.CanonicalID(t.sentAs) != key {
		t.cancelled = true
		s.passCancel()
	}
}

// promptText is what a prompt says, as far as it is text.
func promptText(m acp.Message) string {
	var parts []string
	m.Elements(m.Find(m.Params, "prompt"), func(block acp.Span) { parts = append(parts, blockText(m, block)) })
	return strings.Join(parts, "\n")
}

// blockText is what a content block says, as far as it is text.
func blockText(m acp.Message, block acp.Span) string {
	switch kind := m.Text(m.Find(block, "type")); kind {
	case "text":
		return m.Text(m.Find(block, "text"))
	case "resource_link":
		return m.Text(m.Find(block, "uri"))
	case "resource":
		return m.Text(m.Find(block, "resource", "uri"))
	default:
		return "[" + kind + "]"
	}
}

// typed is what a prompt says without what is attached to it.
func typed(m acp.Message) string {
	var parts []string
	m.Elements(m.Find(m.Params, "prompt"), func(block acp.Span) {
		if m.Text(m.Find(block, "type")) == "text" {
			parts = append(parts, m.Text(m.Find(block, "text")))
		}
	})
	return strings.Join(parts, "\n")
}

// begin opens the turn in the spool.
func (s *session) begin(ctx context.Context, t *turn, agent *process) (timeline.TurnStart, error) {
	site, err := s.site(ctx)
	if err != nil {
		return timeline.TurnStart{}, err
	}
	p := timeline.Prompt{Key: t.key, Agent: s.page.Agent, Source: s.source(), Text: t.text,
		PID: os.Getpid(), PIDStart: proc.Start(os.Getpid()), Owner: s.lease.Owner, Thread: s.thread}
	p.Group, p.GroupStart = agent.group()
	return site.BeginTurn(ctx, p)
}
