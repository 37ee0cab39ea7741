package storetest

import (
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// question returns an interrupt about a tool call with these arguments.
func (f *fixture) question(a saver.ThreadKey, args string, allowed ...segno.DecisionKind) segno.Interrupt {
	return segno.Interrupt{ID: f.id("interrupt"), Thread: a.ID(), Call: f.id("call"), Tool: "send_email", Args: json.RawMessage(args),
		ArgsHash: segno.HashArgs(json.RawMessage(args)), Reason: segno.ReasonApproval, Question: "may it?", Allowed: allowed, Asked: f.now()}
}

// asked saves a thread that waits for n decisions.
func (f *fixture) asked(n int) saver.Snapshot {
	f.Helper()
	s := with(saver.Snapshot{ThreadKey: f.address()}, "hello")
	for range n {
		q := f.question(s.ThreadKey, `{"to":"a@example.com"}`, segno.Approve, segno.Edit, segno.Reject, segno.Respond)
		s.Interrupts = append(s.Interrupts, q)
	}
	return f.save(s)
}

// decided returns a copy of s with additional decisions, for the next step.
func decided(s saver.Snapshot, ds ...segno.Decision) saver.Snapshot {
	s.Step, s.Decisions = 0, append(s.Decisions[:len(s.Decisions):len(s.Decisions)], ds...)
	return s
}

// waiting returns the ids of the open questions.
func waiting(s saver.Snapshot) (ids []string) {
	for _, i := range s.Interrupts {
		ids = append(ids, i.ID)
	}
	return ids
}

func approve(i segno.Interrupt) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Approve, Actor: "ann"}
}

// interruptTests test questions to the user and the decisions on them.
var interruptTests = []test{
	{"several wait at once", "each question stays open, also if a save omits it, until a decision of any kind on its id", func(f *fixture) {
		s := f.asked(4)
		ids := waiting(s)
		f.same("the open questions", waiting(f.latest(s.ThreadKey)), ids)
		s = f.save(decided(s, approve(s.Interrupts[1])))
		f.same("the open questions after the second decision", waiting(s), []string{ids[0], ids[2], ids[3]})
		f.isLatest(s)
		s.Interrupts = nil
		s = f.save(with(s, "without the questions"))
		f.same("from Save", len(waiting(s)), 3)
		s = f.save(decided(f.latest(s.ThreadKey), segno.Decision{Interrupt: ids[0], Kind: segno.Edit, Args: []byte(`{"to":"b"}`)},
			segno.Decision{Interrupt: ids[2], Kind: segno.Reject, Text: "no"},
			segno.Decision{Interrupt: ids[3], Kind: segno.Respond, Text: "it is done"}))
		f.same("open questions and decisions at the end", []int{len(f.latest(s.ThreadKey).Interrupts), len(s.Decisions)}, []int{0, 0})
	}},
	{"single use", "a second decision on a question is a conflict; a closed question stays closed", func(f *fixture) {
		first := f.asked(1)
		question := first.Interrupts[0]
		answered := f.save(decided(first, approve(question)))
		again := answered
		again.Interrupts = first.Interrupts
		for _, kind := range []segno.DecisionKind{segno.Approve, segno.Reject} {
			d := segno.Decision{Interrupt: question.ID, Kind: kind}
			for _, s := range []saver.Snapshot{first, answered, again, f.latest(first.ThreadKey)} {
				f.kind(f.saveErr(decided(s, d)), segno.KindConflict)
			}
		}
		if f.saveErr(with(again, "names the question again")) == nil {
			f.same("the open questions", len(waiting(f.latest(first.ThreadKey))), 0)
		}
		s := f.asked(1)
		f.kind(f.saveErr(decided(s, approve(s.Interrupts[0]), approve(s.Interrupts[0]))), segno.KindConflict)
		f.isLatest(s)
	}},
	{"first wins", "of K concurrent decisions on a question one is recorded; the others are conflicts", func(f *fixture) {
		s := f.asked(1)
		var mine [6]saver.Snapshot
		for k := range mine {
			d := approve(s.Interrupts[0])
			d.Kind = []segno.DecisionKind{segno.Approve, segno.Reject}[k%2]
			mine[k] = decided(f.latest(s.ThreadKey), d)
		}
		race(f, len(mine), func(k int) (saver.Snapshot, error) { return f.saver.Save(f.Context(), mine[k]) })
		got := f.latest(s.ThreadKey)
		f.same("open questions and steps", []int{len(waiting(got)), got.Step}, []int{0, 2})
	}},
	{"refused", "a decision that is unknown, of another thread, not allowed or incomplete is refused and saves nothing", testRefused},
	{"expired", "a question accepts no decision after it expired; another question can replace it", testExpired},
	{"any arguments", "a loaded question can be decided whatever its arguments are", func(f *fixture) {
		for _, args := range append(unusualJSON(), ``, "\n{ \"to\" :\t\"a\" }\n", `"\u003c\u2028"`) {
			for _, load := range []bool{false, true} {
				s := with(saver.Snapshot{ThreadKey: f.address()}, "hello")
				s.Interrupts = []segno.Interrupt{f.question(s.ThreadKey, args, segno.Approve)}
				if args == "" {
					s.Interrupts[0].Args = nil
				}
				if s = f.save(s); load {
					s = f.latest(s.ThreadKey)
				}
				f.same("the arguments", compact(s.Interrupts[0].Args), compact(json.RawMessage(args)))
				f.save(decided(s, approve(s.Interrupts[0])))
			}
		}
	}},
}

func testRefused(f *fixture) {
	s, other := f.asked(2), f.asked(1)
	namespace := f.begin(part(s.ThreadKey, "part"), "x")
	namespace.Interrupts = []segno.Interrupt{f.question(namespace.ThreadKey, `{}`, segno.Approve, segno.Reject)}
	namespace = f.save(namespace)
	f.same("the questions of the namespace", len(waiting(f.latest(namespace.ThreadKey))), 1)
	first, foreign, limited := s.Interrupts[0].ID, approve(other.Interrupts[0]), namespace.Interrupts[0].ID
	for name, x := range map[string]struct {
		to   saver.Snapshot
		ds   []segno.Decision
		want segno.Kind
	}{
		"unknown id":                    {s, []segno.Decision{{Interrupt: "missing", Kind: segno.Approve}}, segno.KindConflict},
		"no id":                         {s, []segno.Decision{{Kind: segno.Approve}}, segno.KindConflict},
		"one valid and one unknown":     {s, []segno.Decision{approve(s.Interrupts[1]), {Interrupt: "missing"}}, segno.KindConflict},
		"question of another thread":    {s, []segno.Decision{foreign}, segno.KindConflict},
		"question of the root":          {namespace, []segno.Decision{approve(s.Interrupts[0])}, segno.KindConflict},
		"question of a namespace":       {s, []segno.Decision{approve(namespace.Interrupts[0])}, segno.KindConflict},
		"edit is not allowed":           {namespace, []segno.Decision{{Interrupt: limited, Kind: segno.Edit}}, segno.KindRefused},
		"respond is not allowed":        {namespace, []segno.Decision{{Interrupt: limited, Kind: segno.Respond}}, segno.KindRefused},
		"no kind":                       {namespace, []segno.Decision{{Interrupt: limited}}, segno.KindRefused},
		"unknown kind":                  {namespace, []segno.Decision{{Interrupt: limited, Kind: "yes"}}, segno.KindRefused},
		"edit without arguments":        {s, []segno.Decision{{Interrupt: first, Kind: segno.Edit}}, segno.KindInvalid},
		"edit with invalid JSON":        {s, []segno.Decision{{Interrupt: first, Kind: segno.Edit, Args: []byte(`{"half`)}}, segno.KindInvalid},
		"approval with other arguments": {s, []segno.Decision{{Interrupt: first, Kind: segno.Approve, Args: []byte(`{}`)}}, segno.KindInvalid},
	} {
		err := f.saveErr(with(decided(x.to, x.ds...), "not saved"))
		if segno.KindOf(err) != x.want {
			f.Errorf("%s: error %v; want kind %q", name, err, x.want)
		}
		f.isLatest(x.to)
	}
}

func testExpired(f *fixture) {
	s := with(saver.Snapshot{ThreadKey: f.address()}, "hello")
	old, young := f.question(s.ThreadKey, `{}`, segno.Approve), f.question(s.ThreadKey, `{}`, segno.Approve)
	old.Expires, young.Expires = f.now().Add(-time.Second), f.now().Add(time.Hour)
	s.Interrupts = []segno.Interrupt{old, young}
	s = f.save(s)
	f.kind(f.saveErr(decided(s, approve(old))), segno.KindRefused)
	f.isLatest(s)
	s = f.save(decided(s, approve(young)))
	f.same("the open questions", waiting(f.latest(s.ThreadKey)), []string{old.ID})
	replacement := f.question(s.ThreadKey, `{}`, segno.Approve)
	replacement.Replaces = old.ID
	s.Interrupts = append(s.Interrupts, replacement)
	s = f.save(s)
	f.same("the open questions after a replacement", waiting(f.latest(s.ThreadKey)), []string{replacement.ID})
	s.Interrupts = []segno.Interrupt{old, replacement}
	s = f.save(with(s))
	f.same("the open questions when the old one is named again", waiting(f.latest(s.ThreadKey)), []string{replacement.ID})
	f.isLatest(s)
}
