package worldcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// equal returns an error that describes the first difference between two snapshots, or nil.
func equal(when string, want, got segno.WorldSnapshot) error {
	if want.Seq != got.Seq || want.Time != got.Time {
		return fmt.Errorf("%s: seq %d at %s became seq %d at %s", when, want.Seq, want.Time, got.Seq, got.Time)
	}
	if !bytes.Equal(want.Document, got.Document) {
		return fmt.Errorf("%s: the documents differ:\n%s\n%s", when, want.Document, got.Document)
	}
	return nil
}

// unchanged returns an error if f changes the state of a world.
func (r *run) unchanged(w segno.World, when string, f func() error) error {
	before, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	after, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	return equal(when, before, after)
}

// checkHeader checks after each step that taking a snapshot changes nothing, that the snapshot agrees with its
// document, that the outcomes can be read, and that the sequence number grows if and only if the state changes.
func checkHeader(r *run) error {
	w, err := r.world()
	if err != nil {
		return err
	}
	before, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	for _, s := range r.script {
		if _, err := s.play(r.ctx, w); err != nil {
			return err
		}
		if err := r.unchanged(w, "snapshot", func() error { return nil }); err != nil {
			return err
		}
		now, err := w.Snapshot(r.ctx)
		if err != nil {
			return err
		}
		if err := headerMatches(w.Info(), now); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if now.Seq < before.Seq || now.Seq == before.Seq && !bytes.Equal(before.Document, now.Document) {
			return fmt.Errorf("%s: seq %d became %d, and the document changed", s, before.Seq, now.Seq)
		}
		before = now
	}
	return nil
}

func headerMatches(info segno.WorldInfo, s segno.WorldSnapshot) error {
	h, err := world.ReadHeader(s.Document)
	if err != nil {
		return err
	}
	if h.Format != info.Format || h.Content != info.Content || h.Seq != s.Seq || h.Time != s.Time {
		return fmt.Errorf("the snapshot is %q seq %d at %s, its document is %q seq %d at %s", info.Format, s.Seq, s.Time, h.Format, h.Seq, h.Time)
	}
	_, err = world.ReadOutcomes(s.Document)
	return err
}

// checkJoin checks that a second join with the same session adds no event.
func checkJoin(r *run) error {
	w, _, err := r.played(r.script)
	if err != nil {
		return err
	}
	join := func(session, name string) error { return w.Join(r.ctx, session, name) }
	if err := r.unchanged(w, "join again", func() error { return join(session(0), Names()[0]) }); err != nil {
		return err
	}
	for _, bad := range [][2]string{{session(0), "Di"}, {"another session", Names()[0]}, {"", "Di"}, {"session of Di", ""}} {
		when := fmt.Sprintf("join with session %q as %q", bad[0], bad[1])
		err := r.unchanged(w, when, func() error { return refusal(join(bad[0], bad[1]), segno.KindConflict, segno.KindInvalid) })
		if err != nil {
			return err
		}
	}
	return nil
}

// refusal returns nil if err has one of the kinds, and otherwise an error.
func refusal(err error, kinds ...segno.Kind) error {
	if err == nil {
		return errors.New("it is not refused")
	}
	for _, k := range kinds {
		if errors.Is(err, k) {
			return nil
		}
	}
	return fmt.Errorf("the error has the wrong kind: %w", err)
}

// checkObserve checks that observing changes nothing and returns the same bytes each time.
func checkObserve(r *run) error {
	w, _, err := r.played(r.script)
	if err != nil {
		return err
	}
	return r.unchanged(w, "observe", func() error {
		first, err := w.Observe(r.ctx, session(0))
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := w.Observe(r.ctx, session(1)); err != nil {
				return err
			}
			again, err := w.Observe(r.ctx, session(0))
			if err != nil {
				return err
			}
			if !bytes.Equal(first, again) {
				return fmt.Errorf("the observation changed:\n%s\n%s", first, again)
			}
		}
		return nil
	})
}

// checkRefused checks that a call that fails changes nothing.
func checkRefused(r *run) error {
	w, err := r.world()
	if err != nil {
		return err
	}
	for _, s := range r.script {
		before, err := w.Snapshot(r.ctx)
		if err != nil {
			return err
		}
		payload, err := s.play(r.ctx, w)
		if err != nil {
			return err
		}
		if strings.HasPrefix(payload, "error: ") {
			after, err := w.Snapshot(r.ctx)
			if err != nil {
				return err
			}
			if err := equal(s.String()+" fails", before, after); err != nil {
				return err
			}
		}
	}
	bad := func(session string, action string) error {
		_, err := w.Act(r.ctx, session, json.RawMessage(action))
		return refusal(err, segno.KindInvalid, segno.KindNotFound)
	}
	for _, action := range []string{"", "{", "null", "[]", `{"no such member of an action":1}`, strings.Repeat("[", 10_000)} {
		if err := r.unchanged(w, fmt.Sprintf("act %.40q", action), func() error { return bad(session(0), action) }); err != nil {
			return err
		}
	}
	return r.unchanged(w, "act without joining", func() error {
		_, err := w.Observe(r.ctx, "unknown session")
		return errors.Join(bad("unknown session", string(r.config.Say("hello"))), refusal(err, segno.KindNotFound))
	})
}

// checkTime checks that only Advance moves time.
func checkTime(r *run) error {
	w, err := r.world()
	if err != nil {
		return err
	}
	var want segno.SimTime
	for _, s := range r.script {
		payload, err := s.play(r.ctx, w)
		if err != nil {
			return err
		}
		if s.Verb == VerbAdvance {
			want += segno.SimTime(time.Duration(s.Ticks) * tickOf(w))
			if payload != "" {
				return fmt.Errorf("%s: %s", s, payload)
			}
		}
		now, err := w.Snapshot(r.ctx)
		if err != nil {
			return err
		}
		if now.Time != want {
			return fmt.Errorf("%s: the time is %s, not %s", s, now.Time, want)
		}
	}
	for _, d := range []time.Duration{0, -tickOf(w)} {
		err := r.unchanged(w, "advance by "+d.String(), func() error { return refusal(w.Advance(r.ctx, d), segno.KindInvalid) })
		if err != nil {
			return err
		}
	}
	return nil
}

// furtherActs is how many actions follow a restore. The loss of a state that is not in the document, such as a counter
// of actions, may become visible only after several actions.
const furtherActs = 30

// further returns the steps that follow a restore: it repeats a script, and a text follows each repetition.
func (r *run) further(script []Step) (steps []Step) {
	for acts := 0; acts < furtherActs; {
		for _, s := range script {
			steps = append(steps, s)
			if s.Verb == VerbAct {
				acts++
			}
		}
		for agent := range 2 {
			steps = append(steps, r.say(agent, fmt.Sprintf("text %d", acts)))
			acts++
		}
		steps = append(steps, Step{Verb: VerbAdvance, Ticks: 1})
	}
	return steps
}

// say returns the step in which an agent says a text.
func (r *run) say(agent int, text string) Step {
	return Step{Verb: VerbAct, Agent: agent, Action: r.config.Say(text)}
}

// checkRestore checks that a restored world equals the original, immediately and after many further steps.
func checkRestore(r *run) error {
	half := len(r.script) / 2
	original, _, err := r.played(append(r.script[:half:half], r.say(0, "before the restore")))
	if err != nil {
		return err
	}
	restored, saved, err := r.restored(original)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	now, err := restored.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	if err := equal("load", saved, now); err != nil {
		return err
	}
	rest := r.further(r.script[half:])
	want, err := play(r.ctx, original, rest)
	if err != nil {
		return err
	}
	got, err := play(r.ctx, restored, rest)
	if err != nil {
		return fmt.Errorf("after load: %w", err)
	}
	if err := comparePayloads(rest, want, got); err != nil {
		return fmt.Errorf("after load: %w", err)
	}
	if saved, err = original.Snapshot(r.ctx); err != nil {
		return err
	}
	if now, err = restored.Snapshot(r.ctx); err != nil {
		return err
	}
	return equal("load and further steps", saved, now)
}

// checkChat checks that after a restore, sessions act without joining again and read
// messages from before and after the restore.
func checkChat(r *run) error {
	original, _, err := r.played(append(r.script[:len(r.script):len(r.script)], Step{Verb: VerbAdvance, Ticks: 1}))
	if err != nil {
		return err
	}
	say := func(w segno.World, agent int, text string) error {
		if _, err := w.Act(r.ctx, session(agent), r.config.Say(text)); err != nil {
			return fmt.Errorf("say: %w", err)
		}
		return w.Advance(r.ctx, tickOf(w))
	}
	if err := say(original, 0, "before the restore"); err != nil {
		return err
	}
	restored, _, err := r.restored(original)
	if err != nil {
		return err
	}
	if err := r.unchanged(restored, "join after load", func() error { return restored.Join(r.ctx, session(0), Names()[0]) }); err != nil {
		return err
	}
	if err := say(restored, 1, "after the restore"); err != nil {
		return err
	}
	for agent, text := range map[int]string{0: "after the restore", 1: "before the restore"} {
		seen, err := restored.Observe(r.ctx, session(agent))
		if err != nil {
			return err
		}
		if !strings.Contains(string(seen), text) {
			return fmt.Errorf("%s does not read %q after the restore: %s", Names()[agent], text, seen)
		}
	}
	return nil
}

// checkText lets an agent send texts that are hard to encode. The world may refuse them. If it accepts them, it must
// still be possible to save and restore it.
func checkText(r *run) error {
	w, _, err := r.played(Opening())
	if err != nil {
		return err
	}
	const mark = "some text"
	said := string(r.config.Say(mark))
	for _, text := range []string{`\ud800`, `\u0000`, `\u2028 <&>`, `\"}`, "\xff", `é`, `\ud83d\ude00`} {
		s := Step{Verb: VerbAct, Action: json.RawMessage(strings.ReplaceAll(said, mark, text))}
		for _, s := range []Step{s, {Verb: VerbAdvance, Ticks: 1}} {
			if _, err := s.play(r.ctx, w); err != nil {
				return fmt.Errorf("say %q: %w", text, err)
			}
		}
	}
	restored, saved, err := r.restored(w)
	if err != nil {
		return fmt.Errorf("restore after odd texts: %w", err)
	}
	now, err := restored.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	return equal("load after odd texts", saved, now)
}
