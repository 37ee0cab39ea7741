package agent

import (
	"bytes"
	"encoding/json"

	"github.com/dalsegno/segno"
)

func (in *Input) hasPrompt() bool { return in.Prompt != "" || len(in.Parts) > 0 }

// parts are the prompt as parts of a message.
func (in *Input) parts() []Part {
	if in.Prompt == "" {
		return in.Parts
	}
	return append([]Part{{Text: in.Prompt}}, in.Parts...)
}

// promptID is the id of the prompt's message; "" without a key.
func (in *Input) promptID() string {
	if in.Key == "" {
		return ""
	}
	return segno.DerivedID("prompt", in.Key)
}

// repeated recognizes an input that the caller gave before. If the input's turn is not over,
// the run continues that turn. If the turn is over, or if the input has no prompt and the
// thread's turn is over, repeated emits the outcome again and returns true.
func (r *run) repeated() (over bool, err error) {
	turn := r.turn
	if r.in.hasPrompt() {
		if turn, err = r.turnOf(&r.in); turn == 0 || err != nil {
			return false, err
		}
		r.in.Prompt, r.in.Parts = "", nil
	}
	if r.open && turn == r.turn {
		return false, nil
	}
	r.tell(Event{Kind: EventLoaded, Loaded: r.loaded()})
	waits := false
	for _, d := range r.in.Decide {
		i, err := r.pending(by(d, r.in.Actor))
		if err != nil {
			return false, err
		}
		waits = waits || i != nil
	}
	end := r.ends[turn]
	if end == nil || waits {
		return false, segno.NewError(segno.KindInvalid, "run agent", string(r.thread), ErrTurnOver).WithHint("give it a prompt")
	}
	for _, e := range eventsOf(end, r.sub) {
		if e.Kind != EventSaved && e.Kind != EventDone {
			continue
		}
		if end.Thread != r.thread {
			e.Seq, e.Thread = 0, r.thread // a fork's, from before it began
		}
		r.send(e)
	}
	return true, nil
}

// turnOf returns the turn that an input's prompt began on this line; 0 if it is a new one.
// With a key the prompt is known by the key. Without one it repeats the prompt of a turn
// that is not over.
func (r *run) turnOf(in *Input) (turn int, err error) {
	for turn, n := range r.prompts {
		for i := range n.Entries {
			e := &n.Entries[i]
			if e.Kind != segno.EntryMessage || e.Name != string(User) || e.Turn != turn {
				continue
			}
			if in.Key == "" && (!r.open || turn != r.turn) || in.Key != "" && e.ID != in.promptID() {
				continue
			}
			switch same, err := samePrompt(in, e.Body); {
			case err != nil:
				return 0, err
			case same:
				return turn, nil
			case in.Key != "":
				return 0, segno.Errorf(segno.KindConflict, "run agent", string(r.thread), "the key was used for another prompt").WithHint("give each prompt its own key")
			}
		}
	}
	return 0, nil
}

// samePrompt reports whether a message's body has the parts of an input.
func samePrompt(in *Input, body json.RawMessage) (bool, error) {
	var said Message
	if err := json.Unmarshal(body, &said); err != nil {
		return false, segno.NewError(segno.KindCorrupt, "read message", "", err)
	}
	was, err := segno.Encode(said.Parts)
	if err != nil {
		return false, err
	}
	given, err := segno.Encode(in.parts())
	return bytes.Equal(was, given), err
}
