package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
	"github.com/dalsegno/segno/timeline"
)

const (
	maxRecoveries = 3    // how often the proxy sends the prompt of one turn again before the turn fails
	maxUnwritten  = 1000 // how many entries of a turn wait in memory while the spool does not accept them
	longDoubt     = 30   // how many times longer a doubted turn may be silent if the agent works on it
)

// turn is a prompt of the client, from its arrival to its answer.
type turn struct {
	*session
	m      acp.Message // the client's request
	key    segno.TurnKey
	prompt string // its text
	turnLog

	begun     bool // the spool has it as an open turn
	cancelled bool
	// disconnected is set if the proxy cancelled the turn because the client left. The user did not
	// cancel it.
	disconnected bool
	seen         bool // the model may have seen the prompt

	stopRenewal func() segno.Lease // nil if the turn has no lease

	proc        *process // that was sent the prompt
	sentAs      string   // the id of the request to it
	sentPreface []string // the preface that was sent with it
	cancelTimer *time.Timer
	doubtTimer  *time.Timer // runs while the answer may have come under another id

	unwritten   []segno.Entry // entries that the spool did not accept yet, oldest first
	hasLost     bool          // there were more than wait
	isReported  bool          // the user received a report of them
	partPending bool          // a timer will record the current message
	onEnd       func()        // called when the turn is recorded; may be nil
}

// prompt runs a turn, or queues it behind the turn under way: a session's turns do not overlap.
func (s *session) prompt(m acp.Message) error {
	if s.turn != nil {
		s.prompts = append(s.prompts, m)
		return nil
	}
	if c, args, ok := parseCommand(promptText(m, false)); ok {
		return s.runCommand(m, c, args)
	}
	return s.runTurn(m, promptText(m, true))
}

// runTurn records a prompt and sends it to the agent.
func (s *session) runTurn(m acp.Message, prompt string) error {
	if err := s.load(); err != nil {
		return err
	}
	if s.record.Deleted {
		s.record.Deleted = false
		s.touch() // puts a deleted session into the lists again
	}
	t := &turn{m: m, key: segno.TurnKey(segno.NewID()), prompt: prompt, session: s, turnLog: newTurnLog(s.addEntry)}
	t.partSoon = t.recordPartSoon
	t.began = func(id string) bool { return slices.Contains(s.leftOpen, id) }
	s.turn = t
	s.inTurn = true
	ctx, end := s.wait()
	proc, err := t.recordPrompt(ctx)
	end()
	switch {
	case isCancelled(err) && s.proxy.ctx.Err() == nil, err == nil && s.isCancelled(m):
		t.finishCancelled(failure.Meaning{Name: "cancelled", Turn: failure.Failed})
	case err != nil:
		t.finish(acp.Failure(m.IDText(), clientError(err)), failure.Meaning{Name: "not begun", Turn: failure.Failed, Message: err.Error()})
	default:
		t.send(proc, m.IDText(), m.Splice(s.promptEdits(m, nil)...))
	}
	return nil
}

func isCancelled(err error) bool { return segno.KindOf(err) == segno.KindCancelled }

// recordPrompt records the beginning of a turn. It acquires the thread, attaches a session that ends at
// the thread's head and opens the turn in the spool, in that order: the lease excludes other clients
// before anything touches the session, and the turn's record names the session in which it begins.
// recordPrompt returns the process that has the session loaded.
func (t *turn) recordPrompt(ctx context.Context) (*process, error) {
	if t.record.Thread == "" && t.record.Foreign { // make a thread only if the agent has the session
		if _, err := t.attach(ctx, reasonRecovery); err != nil {
			return nil, err
		}
	}
	if err := t.acquireThread(ctx); err != nil {
		if isCancelled(err) || errors.Is(err, errHeld) {
			return nil, fmt.Errorf("record the turn: %w", err)
		}
		if err := t.skipRecord(err); err != nil {
			return nil, err
		}
	}
	agent, err := t.attach(ctx, reasonRecovery)
	if err != nil || t.unrecorded {
		return agent, err
	}
	begun, err := t.openTurn(ctx, agent)
	if err != nil && begun.Key == "" {
		return agent, t.skipRecord(err)
	}
	t.proxy.logErr(err)
	t.begun = true
	for _, e := range promptNotes(t.m, t.prompt) {
		t.addEntry(e)
	}
	if begun.Tell != "" {
		t.preface = append(t.preface, begun.Tell)
	}
	if begun.Warn != "" {
		t.proxy.logf("%s", begun.Warn)
	}
	if c := t.continued(); c != nil && c.Preface != "" && !t.prefaced {
		t.preface, t.prefaced = append(t.preface, c.Preface), true
		t.addEntry(note(c.Preface))
	}
	return agent, nil
}

// openTurn opens the turn in the spool.
func (t *turn) openTurn(ctx context.Context, agent *process) (timeline.TurnStart, error) {
	tl, err := t.timeline(ctx)
	if err != nil {
		return timeline.TurnStart{}, err
	}
	process := spool.TurnProcess(os.Getpid())
	process.Group, process.GroupStart = agent.cmd.Process.Pid, agent.start
	return tl.BeginTurn(ctx, timeline.Prompt{Key: t.key, Agent: t.record.Agent, Source: t.source(), Text: t.prompt,
		Owner: t.lease.Owner, Thread: t.record.Thread, Process: process})
}

// acquireThread makes the session's thread, if it has none yet, and acquires the lease on it.
func (t *turn) acquireThread(ctx context.Context) error {
	if t.record.Thread == "" {
		if err := t.openThread(ctx, t.prompt); err != nil {
			return err
		}
		st, err := t.state(ctx)
		if err != nil {
			return err
		}
		t.known = st.turnID() // the session may have turns from before segno
	}
	if err := t.acquireLease(ctx); err != nil {
		return err
	}
	t.proxy.logErr(t.proxy.runner.announce(t.proxy, t.record.Thread))
	if t.continued() == nil {
		t.stopRenewal = startRenewal(t.proxy, t.lease)
	}
	// With the lease held, no other client works on the thread's open turns, whose ends the store did
	// not accept.
	if err := t.writeUnsaved(); err != nil {
		return err
	}
	tl, err := t.timeline(ctx)
	if err != nil {
		return err
	}
	return tl.CloseThreadTurns(ctx, t.record.Thread)
}

// writeUnsaved writes the entries of the previous turn that the spool did not accept, if its end is still not recorded.
func (s *session) writeUnsaved() error {
	if s.unsaved == nil {
		return nil
	}
	if s.proxy.store.Spool().Has(s.unsaved.key) { // otherwise another client has ended the turn
		if err := s.unsaved.writeEntries(); err != nil {
			return err
		}
	}
	s.unsaved = nil
	return nil
}

// retryInterval is the interval at which the entries of an ended turn are offered to the spool again.
const retryInterval = time.Second

// writeUnsavedLater calls writeUnsaved until it succeeds. Without it, a command of the user that records the turn's end before the
// next prompt would not have the turn's newest calls.
func (s *session) writeUnsavedLater() {
	time.AfterFunc(retryInterval, func() {
		s.box.add(0, func() {
			if s.writeUnsaved() != nil {
				s.writeUnsavedLater()
			}
		})
	})
}

// skipRecord marks the turn as unrecorded and returns nil if the user chose to continue without a
// record; else it returns err.
func (t *turn) skipRecord(err error) error {
	if !t.proxy.BestEffort {
		return fmt.Errorf("record the turn: %w", err)
	}
	t.unrecorded = true
	t.report("this turn is not recorded: %v", err)
	return nil
}

func (s *session) source() segno.Source { return segno.Source{Session: s.up, Dir: s.record.Dir} }

// promptEdits are the edits of a prompt for the agent: its session's id, and the preface as
// the first block. They move the preface to sentPreface, from which it is restored if the agent fails
// before it answers. meta is metadata for segno's agent, nil for none.
func (s *session) promptEdits(m acp.Message, meta map[string]any) []acp.Edit {
	edits := s.toAgentEdits(m)
	prompt := m.Find(m.Params, "prompt")
	if len(s.preface) == 0 && meta == nil || prompt.IsZero() || m.Line[prompt.From] != '[' {
		return edits
	}
	block := map[string]any{"type": "text", "text": strings.Join(s.preface, "\n\n")}
	if s.proxy.agent.identity().isSegno() {
		if meta == nil {
			meta = map[string]any{"note": true, "repeated": false, "answered": false}
		}
		block["_meta"] = map[string]any{"segno": meta}
	}
	if s.turn != nil {
		s.turn.sentPreface = s.preface
	}
	s.preface = nil
	blocks := [][]byte{acp.Encode(block)}
	m.Elements(prompt, func(other acp.Span) { blocks = append(blocks, other.Of(m.Line)) })
	return append(edits, acp.Edit{At: prompt, With: array(blocks)})
}

// send writes a prompt to the agent. From here on, the prompt counts as seen.
func (t *turn) send(proc *process, id string, line []byte) {
	t.proc, t.sentAs = proc, id
	proc.send(t.box, id, line, pending{
		answer: func(a acp.Message) { t.box.add(len(a.Line), func() { t.handleAnswer(a, false) }) },
		ended:  func() { t.box.add(0, func() { t.handleAnswer(acp.Message{}, true) }) },
		doubted: func(fail func()) {
			t.box.add(0, func() {
				if t.turn == t && t.doubtTimer == nil {
					t.watch(1, fail)
				}
			})
		},
	})
	if t.cancelled {
		t.sendCancel()
	}
}

// cancelTurn serves the client's session/cancel. It also cancels the waiting prompts. The turn ends with
// the agent's answer.
func (s *session) cancelTurn() {
	s.setCancel(false)
	for _, m := range s.prompts {
		s.proxy.result(m, stopReason("cancelled"))
	}
	s.prompts = nil
	if s.turn != nil && s.turn.proc != nil {
		s.turn.sendCancel()
	}
}

// disconnect ends the turn under way because the client leaves. It asks the agent to cancel the turn, and
// records the turn as interrupted, because the user did not cancel it. It cancels the open requests for permission,
// so that their calls do not run.
func (s *session) disconnect() {
	if s.turn == nil {
		return
	}
	s.turn.disconnected = s.turn.disconnected || !s.turn.cancelled
	s.cancelTurn()
	s.proxy.mu.Lock()
	var questions []*clientRequest
	for key, q := range s.proxy.asked {
		if q.session == s && q.method == "session/request_permission" {
			questions = append(questions, q)
			delete(s.proxy.asked, key)
		}
	}
	s.proxy.mu.Unlock()
	for _, q := range questions {
		q.proc.write(s.box, cancelledPermission(q.id))
	}
}

// isCancelled reports whether a request for permission belongs to a turn that was cancelled. The user may permit the call at that
// moment, and the agent would run it, perhaps after the turn.
func (q *clientRequest) isCancelled() bool {
	return q.method == "session/request_permission" && q.turn != nil && q.turn.cancelled
}

// cancelledPermission returns the answer to a request for permission that the user did not give.
func cancelledPermission(id string) []byte {
	return acp.Result(id, acp.Encode(map[string]any{"outcome": map[string]string{"outcome": "cancelled"}}))
}

func stopReason(reason string) map[string]any { return map[string]any{"stopReason": reason} }

// sendCancel makes the agent cancel the turn. It kills an agent that does not answer in time.
func (t *turn) sendCancel() {
	t.cancelled = true
	t.proc.write(t.box, cancelNotification(t.up))
	if t.cancelTimer == nil {
		t.cancelTimer = time.AfterFunc(cmp.Or(t.proxy.cancelWait, cancelWait), t.proc.kill)
	}
}

func cancelNotification(up segno.SessionID) []byte {
	return acp.Notification("session/cancel", acp.Encode(map[string]any{"sessionId": up}))
}

// cancelPrompt cancels the prompt with an id if the agent cannot, because the prompt still waits or the
// agent knows it by another id. It does not affect other waiting prompts.
func (s *session) cancelPrompt(key string) {
	s.setCancelled(key, false)
	if i := slices.IndexFunc(s.prompts, func(m acp.Message) bool { return m.CanonicalID() == key }); i >= 0 {
		m := s.prompts[i]
		s.prompts = slices.Delete(s.prompts, i, i+1)
		s.proxy.failWith(m, &acp.Error{Code: acp.CodeCancelled, Message: "Request cancelled"})
	} else if t := s.turn; t != nil && t.m.CanonicalID() == key && t.proc != nil && acp.CanonicalID(t.sentAs) != key {
		t.sendCancel()
	}
}

// observe processes an update of the agent for the replay and the turn under way, and for the session's record.
func (s *session) observe(m acp.Message) {
	if s.collecting != nil {
		s.collecting.observe(m)
	}
	update := m.Find(m.Params, "update")
	if update.IsZero() {
		return
	}
	kind := m.Text(m.Find(update, "sessionUpdate"))
	switch kind {
	case "current_mode_update":
		if mode := m.Text(m.Find(update, "currentModeId")); mode != "" {
			s.recordSetting("session/set_mode", "", acp.Encode(map[string]any{"modeId": mode}))
		}
	case "session_info_update":
		title := m.Text(m.Find(update, "title"))
		if title != "" && title != s.record.Title && s.record.Client != "" && !s.fromPreamble {
			s.record.Title = title
			s.touch()
		}
	case "tool_call", "tool_call_update":
		s.openCalls.observe(kind, m.Text(m.Find(update, "toolCallId")), m.Text(m.Find(update, "status")))
	}
	if s.turn != nil {
		s.turn.updates++
		s.turn.add(kind, m, update)
	}
}

// recordPartSoon records the agent's unfinished message, at most once in partInterval, so that a crash
// loses little of it.
func (t *turn) recordPartSoon() {
	wait := partInterval - time.Since(t.partialAt)
	switch {
	case t.partPending:
	case wait <= 0:
		t.recordPart()
	default:
		t.partPending = true
		time.AfterFunc(wait, func() {
			t.box.add(0, func() {
				if t.partPending = false; t.turn == t {
					t.recordPart()
				}
			})
		})
	}
}

// addEntry adds an entry to the turn under way, if there is one and it is recorded. On return the entry is in the
// turn's file, but not synced: it survives the end of this process, but not a power failure. If the disk is full, the
// entry waits in unwritten, and the user receives one report. When more than maxUnwritten entries wait, addEntry drops
// the oldest.
func (s *session) addEntry(e segno.Entry) {
	t := s.turn
	if t == nil || s.unrecorded {
		return
	}
	e.Session, e.Time = s.up, s.proxy.Place.Now()
	if t.unwritten = append(t.unwritten, e); len(t.unwritten) > maxUnwritten {
		t.dropOldest()
	}
	if err := t.writeEntries(); err != nil && !t.isReported {
		t.isReported = true
		s.report("this turn is not recorded in full yet: %v", err)
	}
}

// dropOldest drops the oldest entry that waits. A note in its place records the loss, because the turn's calls are then not all
// known.
func (t *turn) dropOldest() {
	lost := t.unwritten[0]
	t.hasLost, t.unwritten = true, t.unwritten[1:]
	if lost.Name == timeline.NoteLost {
		t.unwritten[0] = lost
		return
	}
	text := "the disk was full, and more of this turn happened than fits in memory, so a part of it is not recorded"
	t.unwritten[0] = segno.Entry{Kind: segno.EntryNote, Session: lost.Session, Time: lost.Time, Name: timeline.NoteLost, Body: clipText(text)}
}

// entries returns the turn's entries, also those that the spool did not accept yet.
func (t *turn) entries(ctx context.Context) ([]segno.Entry, error) {
	written, _, err := t.proxy.store.Spool().Entries(ctx, t.key)
	if err == nil && t.hasLost {
		err = segno.Errorf(segno.KindIO, "read entries", "", "the disk is full, and more of the turn happened than fits in memory")
	}
	return spool.Newest(append(written, t.unwritten...)), err
}

// writeEntries writes a turn's entries to the spool, oldest first. If the disk is full, the rest waits
// for the next call.
func (t *turn) writeEntries() error {
	for len(t.unwritten) > 0 {
		if err := t.proxy.store.Spool().AppendEntry(t.proxy.ctx, t.key, t.unwritten[0]); err != nil {
			return err
		}
		t.unwritten = t.unwritten[1:]
	}
	return nil
}

// agentAsks forwards a request of the agent. It records a request for permission, and one to write a file.
func (s *session) agentAsks(proc *process, m acp.Message) {
	switch method := m.MethodName(); {
	case method == methodWrite && s.turn != nil:
		s.turn.beginWrite(m.IDText(), m.Text(m.Find(m.Params, "path")))
	case method == "session/request_permission":
		s.addEntry(segno.Entry{Kind: segno.EntryInterrupt, ID: permissionID(m), Name: m.Text(m.Find(m.Params, "toolCall", "title")),
			Body: permissionBody(m)})
	}
	s.proxy.askClient(proc, s, m)
}

// permissionBody is the recorded part of a request for permission. A long one loses the call's input,
// which the entry of the call has. The options stay, because they give the answer its meaning.
func permissionBody(m acp.Message) json.RawMessage {
	if params := m.Params.Of(m.Line); len(params) <= segno.MaxUnclipped {
		return bytes.Clone(params)
	}
	call := m.Find(m.Params, "toolCall")
	return segno.Clip(acp.Encode(map[string]any{"options": json.RawMessage(m.Find(m.Params, "options").Of(m.Line)),
		"toolCall": map[string]string{"toolCallId": m.Text(m.Find(call, "toolCallId")),
			"title": timeline.Title(m.Text(m.Find(call, "title")))}}))
}

// permissionID is the id of the entry of a request for permission. It contains the id of the call.
func permissionID(m acp.Message) string {
	return timeline.PermissionID(cmp.Or(m.Text(m.Find(m.Params, "toolCall", "toolCallId")), m.IDText()))
}

// clientAnswered records the client's answer to a request of [session.agentAsks].
func (s *session) clientAnswered(q *clientRequest, m acp.Message) {
	if q.method == methodWrite && s.turn != nil {
		s.turn.endWrite(q.id, m.Err() == nil)
	}
	if q.method != "session/request_permission" {
		return
	}
	body := m.Result.Of(m.Line)
	if body == nil {
		body = m.Error.Of(m.Line)
	}
	s.addEntry(segno.Entry{Kind: segno.EntryDecision, ID: q.permission, Body: segno.Clip(bytes.Clone(body))})
}

// watch watches a turn after the agent sent an answer with an unknown id, which may have been the turn's
// answer. If the agent continues the turn, it was not. Otherwise watch calls fail, which fails the turn.
// watch decides after the usual wait, multiplied by times.
func (t *turn) watch(times int, fail func()) {
	activity, id := t.activity, t.sentAs
	t.doubtTimer = time.AfterFunc(time.Duration(times)*cmp.Or(t.proxy.strayWait, answerWait), func() {
		t.box.add(0, func() {
			t.proxy.mu.Lock()
			asked := slices.Collect(maps.Values(t.proxy.asked))
			t.proxy.mu.Unlock()
			isAsked := slices.ContainsFunc(asked, func(q *clientRequest) bool { return q.session == t.session })
			isCalling := slices.ContainsFunc(slices.Collect(maps.Values(t.calls)), func(c *call) bool { return !c.ended })
			switch {
			case t.turn != t || t.sentAs != id: // the agent answered it, or it was sent again
			case isAsked:
				t.watch(times, fail)
			case t.activity == activity && (times == longDoubt || !isCalling):
				// If the agent still works on the turn, that work would not be recorded.
				t.proc.write(t.box, cancelNotification(t.up))
				t.proxy.work.Go(fail)
			default:
				t.watch(longDoubt, fail)
			}
		})
	})
}

// stopDoubt stops watch, because the agent answered the turn or the proxy sends it again.
func (t *turn) stopDoubt() {
	if t.doubtTimer != nil {
		t.doubtTimer.Stop()
		t.doubtTimer = nil
	}
}
