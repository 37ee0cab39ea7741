package codex

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Interrupted reports whether Codex recorded the end of a turn. Codex runs no Stop hook after an error of the model, and version 0.125
// runs no hook after an interruption.
func (c *Transcripts) Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	t, err := c.observe(ctx, src, key)
	return t.isOver, err
}

// LastOf returns the time at which Codex recorded the end of a turn, and true. It returns the zero time if Codex recorded none.
func (c *Transcripts) LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, _ bool) (at time.Time, over bool, err error) {
	t, err := c.observe(ctx, src, key)
	if err != nil || !t.isOver {
		return time.Time{}, false, err
	}
	return t.end, true, nil
}

// MadeNoCalls reports whether a turn certainly made no call, except those that UnreportedCalls returns, and ran beside no command of an
// earlier turn that is not in known. The session must have the end of the turn, or its last message, because otherwise a record of a call
// may follow.
func (c *Transcripts) MadeNoCalls(ctx context.Context, src segno.Source, key segno.TurnKey, lastMessage string, known map[string]bool) (bool, error) {
	t, err := c.observe(ctx, src, key)
	isUnknown := func(task string) bool { return !known[task] }
	if err != nil || t.calls > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(t.running)), isUnknown) {
		return false, err
	}
	return t.isOver || isReported(t.message, lastMessage), nil
}

// LastMessage returns the last message of the model in a turn. reported is the one that Codex reported at the end of the turn: in plan mode
// that lacks the plan. If the session has another message, LastMessage returns reported.
func (c *Transcripts) LastMessage(ctx context.Context, src segno.Source, key segno.TurnKey, reported string) (string, error) {
	t, err := c.observe(ctx, src, key)
	if err != nil || !isReported(t.message, reported) {
		return reported, err
	}
	return t.message, nil
}

// The tags around a plan in a message of the model.
const planBegin, planEnd = "<proposed_plan>", "</proposed_plan>"

// isReported reports whether a message of the model is the one that Codex reported as the last one. Codex leaves out the plan in a message.
func isReported(message, reported string) bool {
	isSame := func(text string) bool { return slices.Equal(strings.Fields(text), strings.Fields(reported)) }
	before, plan, hasPlan := strings.Cut(message, planBegin)
	_, after, _ := strings.Cut(plan, planEnd)
	return message != "" && (message == strings.TrimSpace(reported) || hasPlan && isSame(before+"\n"+after))
}

// endWait is the longest time by which Codex may write the end of a turn later than it reports the end.
const endWait = time.Second

// MadeNoCallsSince reports whether the turns that began since a time certainly made no call at all, and ran beside no command of an earlier
// turn. It waits a moment for the end of the newest one.
func (c *Transcripts) MadeNoCallsSince(ctx context.Context, src segno.Source, since time.Time) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, endWait) // not for the reads, which are slow on a busy machine
	defer cancel()
	began := func(r *record) bool {
		at, err := time.Parse(time.RFC3339Nano, jsonscan.Unescape(r.timestamp))
		return r.kind == kindStart && err == nil && !at.Add(time.Millisecond).Before(since) // the time has whole milliseconds
	}
	for {
		t, err := c.observeTurn(ctx, src, func(r *record, isIn bool) bool { return isIn || began(r) })
		if err != nil || t.calls > 0 || len(t.typed) > 0 || len(t.running) > 0 {
			return false, err
		}
		if t.isOver {
			return true, nil
		}
		select {
		case <-time.After(endWait / 20):
		case <-wait.Done():
			return false, nil
		}
	}
}

// observed is what a session shows about one turn.
type observed struct {
	isOver  bool            // the newest record of the turn is its end
	end     time.Time       // the time of the end
	calls   int             // the number of the turn's calls, without those that UnreportedCalls returns and those that wait for a command
	typed   map[string]bool // the ids of the latter
	message string          // the last message of the model in the turn
	running map[string]bool // the ids of commands of any turn that Codex left running and whose end it did not record
}

// observe reads what a session shows about a turn. It finds nothing for an empty key.
func (c *Transcripts) observe(ctx context.Context, src segno.Source, key segno.TurnKey) (observed, error) {
	if key == "" {
		return observed{}, nil
	}
	return c.observeTurn(ctx, src, func(r *record, _ bool) bool { return r.turn() == string(key) })
}

// observeTurn reads what a session shows about the part of it that contains decides. contains receives each line that begins, continues
// or ends a turn, and whether the line before it is in that part.
func (c *Transcripts) observeTurn(ctx context.Context, src segno.Source, contains func(r *record, isIn bool) bool) (observed, error) {
	o := observed{running: map[string]bool{}, typed: map[string]bool{}}
	isIn := false // the line is within the turn
	err := c.readRecords(ctx, "look for the end of a turn", src, func([]byte) bool { return true }, func(r *record) {
		if r.turn() != "" {
			isIn = contains(r, isIn)
		}
		o.noteCommand(r)
		if isIn {
			o.add(r)
		}
	})
	return o, err
}

// readRecords calls do with each line of a session that isNeeded selects and that can be read.
func (c *Transcripts) readRecords(ctx context.Context, op string, src segno.Source, isNeeded func(line []byte) bool, do func(*record)) error {
	s, err := c.open(ctx, op, src)
	if err != nil {
		return err
	}
	defer s.close()
	l := sessionfile.NewLineReader(s.section(0, s.size), 0)
	var r record
	for at := range l.All() {
		if at.Number%1024 == 0 && ctx.Err() != nil {
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
		if isNeeded(at.Bytes) && r.parse(at.Bytes) == nil {
			do(&r)
		}
	}
	_, err = l.End()
	return sessionfile.IOError(op, s.src.Path, err)
}

// turn returns the id of the turn that a line begins, continues or ends, or "".
func (r *record) turn() string {
	switch r.kind {
	case kindStart, kindContext, kindEnd:
		return r.text("turn_id")
	}
	return ""
}

// add adds a line of the turn.
func (o *observed) add(r *record) {
	switch r.kind {
	case kindEnd:
		at, err := time.Parse(time.RFC3339Nano, jsonscan.Unescape(r.timestamp))
		o.isOver, o.end = err == nil, at.Add(time.Millisecond) // the time has whole milliseconds
	case kindStart, kindPrompt, kindInput, kindOutput:
		o.isOver = false
	}
	if string(r.typ) != "response_item" {
		return
	}
	switch string(r.event) {
	case "reasoning":
	case "message":
		if string(r.role) == "assistant" {
			o.message = strings.TrimSpace(r.messageText())
		}
	default:
		id := r.text("call_id")
		if o.typed[id] = o.typed[id] || r.text("name") == typing; !o.typed[id] {
			o.calls++
		}
	}
}

// noteCommand notes that a command still ran when Codex answered the model, or that a command ended.
func (o *observed) noteCommand(r *record) {
	if r.isResult() {
		if task := r.task(); task != "" {
			o.running[task] = true
		}
		return
	}
	if len(o.running) == 0 {
		return
	}
	task, _ := r.endOfCommand()
	delete(o.running, task)
}

// messageText returns the text of a message of the model.
func (r *record) messageText() string {
	content := r.value("content")
	var text strings.Builder
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		part := at.Of(content)
		text.WriteString(jsonscan.Text(jsonscan.Find(part, jsonscan.Span{To: len(part)}, "text").Of(part)))
	})
	return text.String()
}
