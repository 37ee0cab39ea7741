package agent

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/dalsegno/segno"
)

// Input is the input of a run. If it has a prompt, the run begins a turn. Otherwise the run
// continues an unfinished turn, or returns the outcome of a turn that has ended. After any error
// a caller may run the same input again.
type Input struct {
	Thread string // "" runs without saving
	Prompt string
	Parts  []Part // images and files of the prompt
	// Key is the prompt's idempotency key, unique in its thread. The same key again continues
	// the turn that the prompt began, or returns its outcome, even after later turns. The same
	// key with another prompt is a [segno.KindConflict]. A prompt without a key continues an
	// unfinished turn that began with an equal prompt; any other prompt begins a turn. The key of
	// an undone turn can be used again, because the turn is not on the line.
	Key string
	// Begun means that an earlier run began the turn of the prompt with Key. If the turn was undone
	// since, the run does not begin it again, and its error is a [segno.KindConflict] with
	// [ErrUndone].
	Begun bool
	// Decide answers interrupts of the thread or of its subagents. The first recorded decision
	// on an interrupt counts. Any other is a [segno.KindConflict] with [segno.ErrAnswered]; the
	// recorded decision itself may be repeated.
	Decide []segno.Decision
	Actor  string // the actor of decisions that do not name one
	// Output is a JSON Schema. The turn's answer is then an object that matches it, in
	// [Outcome.Output].
	Output json.RawMessage
}

func (in *Input) hasPrompt() bool { return in.Prompt != "" || len(in.Parts) > 0 }

// parts returns the prompt as parts of a message.
func (in *Input) parts() []Part {
	if in.Prompt == "" {
		return in.Parts
	}
	return append([]Part{{Text: in.Prompt}}, in.Parts...)
}

// promptID returns the id of the prompt's message, "" without a key.
func (in *Input) promptID() string {
	if in.Key == "" {
		return ""
	}
	return segno.DerivedID("prompt", in.Key)
}

// equals reports whether a message's body has the parts of the prompt.
func (in *Input) equals(body json.RawMessage) (bool, error) {
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return false, segno.NewError(segno.KindCorrupt, "read message", "", err)
	}
	parts, err := segno.AsStored(in.parts())
	if err != nil {
		return false, err
	}
	logged, err := segno.Encode(m.Parts)
	if err != nil {
		return false, err
	}
	given, err := segno.Encode(parts)
	return bytes.Equal(logged, given), err
}

// repeatedInput recognizes the input of an earlier run. If the input's turn has not
// ended, the run continues it. If it has ended, or if the input has no prompt and the thread's
// turn has ended, repeatedInput emits the outcome again and returns true.
func (r *run) repeatedInput() (over bool, err error) {
	turn := r.turn
	if r.in.hasPrompt() {
		turn, err = r.turnOf(&r.in)
		if turn == 0 && err == nil && r.in.Begun {
			err = segno.NewError(segno.KindConflict, "run agent", string(r.thread), ErrUndone)
		}
		if turn == 0 || err != nil {
			return false, err
		}
		r.in.Prompt, r.in.Parts = "", nil
	}
	if r.open && turn == r.turn {
		return false, nil
	}
	r.emit(Event{Kind: EventLoaded, RunEvent: RunEvent{Loaded: r.loaded()}})
	waits := false
	for _, d := range r.in.Decide {
		d.Actor = cmp.Or(d.Actor, r.in.Actor)
		i, err := r.pendingInterrupt(d)
		if err != nil {
			return false, err
		}
		waits = waits || i != nil
	}
	end := r.ends[turn]
	if end == nil || waits {
		return false, segno.NewError(segno.KindInvalid, "run agent", string(r.thread), ErrTurnOver).WithHint("give the run a prompt")
	}
	r.emitOutcome(end)
	return true, nil
}

// emitOutcome emits the outcome of a turn from the commit that ended it.
func (r *run) emitOutcome(end *segno.Node) {
	for _, e := range eventsOf(end, r.sub) {
		if e.Kind != EventSaved && e.Kind != EventDone {
			continue
		}
		if end.Thread != r.thread {
			e.Seq, e.Thread = 0, r.thread // the turn ended before this fork began
		}
		r.send(e)
	}
}

// turnOf returns the turn that an input's prompt began on this line; 0 if none. It compares
// the key. For an input without a key, it compares the prompt with that of the unfinished turn.
func (r *run) turnOf(in *Input) (int, error) {
	for turn, n := range r.prompts {
		for i := range n.Entries {
			e := &n.Entries[i]
			if e.Kind != segno.EntryMessage || e.Name != string(User) || e.Turn != turn {
				continue
			}
			if in.Key == "" && (!r.open || turn != r.turn) || in.Key != "" && e.ID != in.promptID() {
				continue
			}
			switch same, err := in.equals(e.Body); {
			case err != nil:
				return 0, err
			case same:
				return turn, nil
			case in.Key != "":
				return 0, segno.Errorf(segno.KindConflict, "run agent", string(r.thread), "the key was used for another prompt").
					WithHint("give each prompt a different key")
			}
		}
	}
	return 0, nil
}
