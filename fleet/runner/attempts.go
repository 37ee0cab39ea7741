package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// attempt is the record of one attempt at a prompt.
type attempt struct {
	Key    string         `json:"key"`
	Head   segno.CommitID `json:"head"`             // of the thread when the attempt began
	Dir    string         `json:"dir,omitempty"`    // the directory of the agent
	Answer *answer        `json:"answer,omitempty"` // the agent receives this decision instead of the prompt
	Waits  string         `json:"waits,omitempty"`  // the id of the question with which the attempt ended
}

// attempts is a thread of its own in the store, beside the thread of the conversation. Its entries are the attempts, and the
// calls that the agent announced in each. It is beside the conversation because the calls are recorded while the
// turn is under way, and a commit on the conversation would move its head.
type attempts struct {
	store segno.Store
	of    segno.ThreadID
	id    segno.ThreadID
	head  segno.Head
	last  *attempt // the newest one, nil before the first
	calls []call   // of all attempts at the same prompt, oldest first

	known map[string]bool // the calls of this attempt, by id; true once a call has ended
}

// call is a tool call of an attempt.
type call struct {
	title    string
	hasEnded bool
}

// attemptName is the name of the entries that contain an attempt, and of the threads with the attempts.
const attemptName = "attempt"

// openAttempts reads the newest attempt of a thread, and the calls of all attempts at the same prompt: a worker may die
// before its agent calls anything, and the next agent must know what the agents before it did.
func openAttempts(ctx context.Context, store segno.Store, of segno.ThreadID) (*attempts, error) {
	t := &attempts{store: store, of: of, id: segno.ThreadID(segno.DerivedID("attempts", string(of))), known: map[string]bool{}}
	var err error
	t.head, err = store.Head(ctx, t.id)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	ended := map[string]bool{}
	var calls []call // after the next older attempt, newest first
	for n, err := range segno.Ancestors(ctx, store, t.head.Head, segno.Window{Last: 16, Entries: true}) {
		if err != nil {
			return nil, err
		}
		for i := len(n.Entries) - 1; i >= 0; i-- {
			e := n.Entries[i]
			switch e.Kind {
			case segno.EntryResult:
				ended[e.ID] = true
			case segno.EntryIntent:
				calls = append(calls, call{e.Name, ended[e.ID]})
			case segno.EntryNote:
				var a attempt
				if err := json.Unmarshal(e.Body, &a); err != nil {
					return nil, segno.NewError(segno.KindCorrupt, "read attempt", string(n.ID), err)
				}
				if t.last != nil && t.last.Key != a.Key {
					return t, nil // the calls so far are of a later prompt's attempts
				}
				t.last = cmp.Or(t.last, &a)
				slices.Reverse(calls)
				t.calls, calls = append(calls, t.calls...), nil
			}
		}
	}
	return t, nil
}

// begin records an attempt, durably.
func (t *attempts) begin(ctx context.Context, a attempt) error {
	body, err := segno.Encode(a)
	if err != nil {
		return err
	}
	return t.commit(ctx, []segno.Entry{{Kind: segno.EntryNote, Name: attemptName, Time: time.Now(), Body: body}})
}

// add records that a call began or ended. It returns when a commit has the entry, so that the agent's next message is read
// after that.
func (t *attempts) add(ctx context.Context, id, title string, isEnd bool) error {
	ended, known := t.known[id]
	var entries []segno.Entry
	if !known {
		entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: id, Name: timeline.Title(title), Time: time.Now()})
	}
	if isEnd && !ended {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: id, Time: time.Now()})
	}
	t.known[id] = ended || isEnd
	if len(entries) == 0 {
		return nil
	}
	return t.commit(ctx, entries)
}

func (t *attempts) commit(ctx context.Context, entries []segno.Entry) error {
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: t.id, Parent: t.head.Head, Expect: t.head.Head, Epoch: t.head.Epoch,
		Entries: entries, Durability: segno.Synced}
	if t.head.Head == "" {
		c.Create = &segno.Thread{ID: t.id, Created: time.Now().UTC(), ParentThread: t.of, Name: attemptName}
	}
	head, err := t.store.Commit(context.WithoutCancel(ctx), c)
	if err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	t.head = head
	return nil
}

// maxReported is the number of calls that a report lists.
const maxReported = 50

// report describes the newest attempt to the agent that makes the next one. isRecorded is set if the turn of that attempt was
// recorded, as interrupted: the agent then has its conversation and its files.
func (t *attempts) report(isRecorded bool) string {
	if isRecorded {
		return "The turn before this prompt was an attempt at the same prompt, and was interrupted. Continue it, and do not repeat what it did."
	}
	var b strings.Builder
	b.WriteString("An earlier attempt at this prompt was interrupted, because its machine failed. Its conversation and its changes to the files are lost. " +
		"What its tools did elsewhere may have happened, so find out before you repeat it.")
	if len(t.calls) == 0 {
		b.WriteString(" No call was recorded, but the last one may be missing.")
		return b.String()
	}
	b.WriteString(" It had called:")
	for i, c := range t.calls {
		if i == maxReported {
			fmt.Fprintf(&b, "\n- %d more", len(t.calls)-i)
			break
		}
		state := "its result is not known"
		if c.hasEnded {
			state = "it ended"
		}
		fmt.Fprintf(&b, "\n- %s (%s)", c.title, state)
	}
	return b.String()
}
