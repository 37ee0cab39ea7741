package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
)

// turnLog returns the entries of the turn: the prompt, the entries in the spool and the last
// message.
func (tx *txn) turnLog(ctx context.Context, w *turnEnd) ([]segno.Entry, error) {
	noted, _, err := tx.Spool.Entries(ctx, w.turn.Key)
	if err != nil {
		return nil, err
	}
	var es []segno.Entry
	if w.done != nil {
		before, err := tx.commitEntries(ctx, w.done.ID)
		if err != nil {
			return nil, err
		}
		es = append(es, before...)
	} else {
		es = append(es, tx.messageEntry(w, "user", w.turn.Prompt))
		if w.turn.Note != "" {
			es = append(es, tx.noteEntry(w, w.turn.Note))
		}
	}
	w.noted = len(noted)
	noted = withoutQueued(tx.withUnreported(ctx, &w.turn, noted), w.Queued)
	for _, d := range w.got.Damage {
		es = append(es, tx.noteEntry(w, fmt.Sprintf("the transcript could not be read in full: line %d: %s; 'segno sessions heal' repairs a copy of the session", d.Line, d.Why)))
	}
	if es = append(es, noted...); w.Interrupted && len(w.turn.Tasks) == 0 && tx.endedAtQuestion(ctx, w.turn) {
		es = append(es, unmade(es)...)
	}
	es = dedupe(es)
	if len(w.doubt) > 0 {
		es = append(es, pathsEntry(segno.EntryDoubt, w.doubt, w.turn.Source.Session, tx.Now()))
	}
	if len(w.others) > 0 {
		es = append(es, pathsEntry(segno.EntryOthers, w.others, w.turn.Source.Session, tx.Now()))
	}
	if len(w.unnamed) > 0 {
		es = append(es, pathsEntry(segno.EntryUnnamed, w.unnamed, w.turn.Source.Session, tx.Now()))
	}
	if w.whyAll != "" {
		es = append(es, tx.noteEntry(w, w.whyAll))
	}
	if strings.TrimSpace(w.Message) != "" {
		es = append(es, tx.messageEntry(w, "agent", w.Message))
	}
	return es, nil
}

// withoutQueued drops the newest n messages of the user.
func withoutQueued(noted []segno.Entry, n int) []segno.Entry {
	kept := slices.Clone(noted)
	for i := len(kept) - 1; i >= 0 && n > 0; i-- {
		if kept[i].Kind == segno.EntryMessage && kept[i].Name == "user" {
			kept = slices.Delete(kept, i, i+1)
			n--
		}
	}
	return kept
}

// messageEntry returns a message. Only the agent's last message gets a later time than the
// turn's start.
func (tx *txn) messageEntry(w *turnEnd, author, text string) segno.Entry {
	at := w.startTime(tx.Now())
	if author == "agent" {
		at = tx.Now()
	}
	return segno.Entry{Kind: segno.EntryMessage, Session: w.turn.Source.Session, Time: at, Name: author, Body: quote(text)}
}

// noteEntry returns a note by segno.
func (tx *txn) noteEntry(w *turnEnd, text string) segno.Entry {
	e := tx.messageEntry(w, "segno", text)
	e.Kind = segno.EntryNote
	return e
}

// quote returns a text as the body of an entry.
func quote(text string) json.RawMessage {
	body, err := json.Marshal(text)
	if err != nil {
		panic("segno: internal error: a string does not encode: " + err.Error())
	}
	return segno.Clip(body)
}

// dedupe keeps one entry of each kind for a tool call: the longest, at the place of the first.
// An agent with two sets of settings runs each hook twice, and an agent may announce a call
// before it knows the arguments. If hooks recorded the beginning of a call, the newest entry has the input that the tool received.
func dedupe(es []segno.Entry) []segno.Entry {
	type call struct {
		kind segno.EntryKind
		id   string
	}
	first := map[call]int{}
	var out []segno.Entry
	for _, e := range es {
		c := call{e.Kind, e.ID}
		at, again := first[c]
		switch {
		case e.ID == "" || !again:
			first[c] = len(out)
			out = append(out, e)
		case len(e.Body) > len(out[at].Body), e.Kind == segno.EntryIntent && repeats(e, out[at]):
			e.Time = out[at].Time
			out[at] = e
		}
	}
	return out
}

// repeats reports whether a hook recorded the beginning of a call again after a hook had recorded it.
func repeats(e, earlier segno.Entry) bool {
	in := turns.ReadIntent(earlier.Body)
	return turns.ReadIntent(e.Body).Changed != nil && in.IsOfHook()
}
