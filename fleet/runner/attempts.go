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
	Key    string  `json:"key"`
	Seq    int64   `json:"seq"`              // of the newest commit of the thread when the attempt began
	Dir    string  `json:"dir,omitempty"`    // the directory of the agent
	Answer *answer `json:"answer,omitempty"` // the agent receives this decision instead of the prompt
	Waits  string  `json:"waits,omitempty"`  // the id of the question with which the attempt ended
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
	calls []*call  // of all earlier attempts at the same prompt, oldest first

	known map[string]*call // the calls of this attempt, by id
}

// call is a tool call of an attempt.
type call struct {
	id, title string
	announced description  // in this attempt, by the newest announcement; not recorded
	allowed   *allowedCall // nil if the runner did not allow the call
	hasEnded  bool
	isLost    bool // the agent's process ended during the call
}

// allowedCall is the body of the entry that records, before the agent receives it, that the runner allows a call.
type allowedCall struct {
	Args     segno.Hash `json:"args"`               // [segno.HashArgs] of the input
	Question string     `json:"question,omitempty"` // the id of the question whose decision allowed it
	Repeats  bool       `json:"repeats,omitempty"`  // the outcome of an equal call was not known then
}

// attemptName is the name of the entries that contain an attempt, and of the threads with the attempts.
const attemptName = "attempt"

// openAttempts reads the newest attempt of a thread, and the calls of all attempts at the same prompt: a worker may die
// before its agent calls anything, and the next agent must know what the agents before it did.
func openAttempts(ctx context.Context, store segno.Store, of segno.ThreadID) (*attempts, error) {
	t := &attempts{store: store, of: of, id: segno.ThreadID(segno.DerivedID("attempts", string(of))), known: map[string]*call{}}
	var err error
	t.head, err = store.Head(ctx, t.id)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	var calls []*call // after the next older attempt, newest first
	known := map[string]*call{}
	for n, err := range segno.Ancestors(ctx, store, t.head.Head, segno.Window{Last: 16, Entries: true}) {
		if err != nil {
			return nil, err
		}
		for i := len(n.Entries) - 1; i >= 0; i-- {
			e := n.Entries[i]
			switch e.Kind {
			case segno.EntryResult:
				known[e.ID] = &call{id: e.ID, hasEnded: true}
			case segno.EntryIntent:
				var allowed *allowedCall
				if len(e.Body) > 0 {
					allowed = new(allowedCall)
					if err := json.Unmarshal(e.Body, allowed); err != nil {
						return nil, segno.NewError(segno.KindCorrupt, "read attempt", string(n.ID), err)
					}
				}
				c := known[e.ID]
				if c == nil || allowed != nil && c.allowed != nil && *c.allowed != *allowed { // the agent used the id again
					c = &call{id: e.ID}
				}
				if known[e.ID] = c; !slices.Contains(calls, c) {
					calls = append(calls, c)
				}
				c.title, c.allowed = cmp.Or(c.title, e.Name), cmp.Or(c.allowed, allowed)
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
				clear(known) // an agent may use its ids again
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

// callUpdate is what the agent reports about a call.
type callUpdate struct {
	id, title string
	announced description
	isNew     bool // the update announces the call
	isEnd     bool
	isLost    bool // the agent's process ended, so the call's outcome is not known
}

// add records that a call began or ended. It returns when a commit has the entry, so that the agent's next message is read
// after that.
func (t *attempts) add(ctx context.Context, u callUpdate) error {
	c, entries := t.begun(u.id, u.title)
	c.isLost = c.isLost || u.isLost
	if u.isNew {
		c.announced = description{}
	}
	if !u.isEnd { // then its content is the result
		c.announced = u.announced.or(c.announced)
	}
	if u.isEnd && !c.hasEnded && !c.isLost {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: u.id, Time: time.Now()})
		c.hasEnded = true
	}
	return t.commit(ctx, entries)
}

// begun returns a call of this attempt, and the entry that records it if it is new.
func (t *attempts) begun(id, title string) (*call, []segno.Entry) {
	if c := t.known[id]; c != nil {
		return c, nil
	}
	c := &call{id: id, title: timeline.Title(title)}
	t.known[id] = c
	return c, []segno.Entry{{Kind: segno.EntryIntent, ID: id, Name: c.title, Time: time.Now()}}
}

// allow records that the runner allows a call. After that, the call may have an effect.
func (t *attempts) allow(ctx context.Context, id, title string, a allowedCall) error {
	body, err := segno.Encode(a)
	if err != nil {
		return err
	}
	c, _ := t.begun(id, title)
	if c.hasEnded || c.allowed != nil && *c.allowed != a { // the agent uses the id again
		c = &call{id: id, announced: c.announced}
		t.known[id] = c
	}
	c.title, c.allowed = timeline.Title(title), &a // the announcement may have had another title
	return t.commit(ctx, []segno.Entry{{Kind: segno.EntryIntent, ID: id, Name: c.title, Time: time.Now(), Body: body}})
}

// allowedBy returns the call that an earlier attempt made because of the decision of a question, or nil.
func (t *attempts) allowedBy(question string) *call {
	for _, c := range slices.Backward(t.calls) {
		if c.allowed != nil && c.allowed.Question == question {
			return c
		}
	}
	return nil
}

// mayHaveRun reports whether a call with this title and input was allowed whose outcome is not known, and which was not
// repeated since.
func (t *attempts) mayHaveRun(title string, args segno.Hash) bool {
	lost := 0
	count := func(c *call, isLost bool) {
		if c.allowed == nil || c.allowed.Args != args || c.title != timeline.Title(title) {
			return
		}
		if isLost {
			lost++
		}
		if c.allowed.Repeats {
			lost--
		}
	}
	for _, c := range t.calls {
		count(c, !c.hasEnded)
	}
	for _, c := range t.known {
		count(c, c.isLost)
	}
	return lost > 0
}

// commit commits entries, if there are any. The end of the context of the attempt does not stop it.
func (t *attempts) commit(ctx context.Context, entries []segno.Entry) error {
	if len(entries) == 0 {
		return nil
	}
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
