package storetest

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// question is an interrupt that waits, about a call with these arguments.
func (f *fixture) question(a saver.ThreadKey, args string, allowed ...segno.DecisionKind) segno.Interrupt {
	return segno.Interrupt{ID: f.id("interrupt"), Thread: a.ID(), Call: f.id("call"), Tool: "send_email", Args: json.RawMessage(args),
		ArgsHash: segno.HashArgs(json.RawMessage(args)), Reason: segno.ReasonApproval, Question: "may it?", Allowed: allowed, Asked: f.now()}
}

// copied is an interrupt that shares nothing with i.
func (f *fixture) copied(i segno.Interrupt) segno.Interrupt {
	f.Helper()
	data, err := json.Marshal(i)
	f.ok(err)
	var out segno.Interrupt
	f.ok(json.Unmarshal(data, &out))
	return out
}

// asked saves a thread that waits for n answers.
func (f *fixture) asked(n int) saver.Snapshot {
	f.Helper()
	s := more(saver.Snapshot{ThreadKey: f.address()}, "hello")
	for range n {
		s.Interrupts = append(s.Interrupts, f.question(s.ThreadKey, `{"to":"a@example.com"}`, segno.Approve, segno.Edit, segno.Reject, segno.Respond))
	}
	return f.save(s)
}

// decided is s with one more decision, for the next step.
func decided(s saver.Snapshot, ds ...segno.Decision) saver.Snapshot {
	s.Step, s.Decisions = 0, append(s.Decisions[:len(s.Decisions):len(s.Decisions)], ds...)
	return s
}

// waiting is the ids of what waits in s.
func waiting(s saver.Snapshot) (ids []string) {
	for _, i := range s.Interrupts {
		ids = append(ids, i.ID)
	}
	return ids
}

func approve(i segno.Interrupt) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Approve, Actor: "ann"}
}

func interrupts() []clause {
	return []clause{
		{"several wait at once", "questions of one step are told apart by their ids; each waits, oldest first, until it alone is answered", severalWait},
		{"they wait on", "a question waits through later saves until it is answered, and is stored once", theyWaitOn},
		{"every answer", "approve, edit, reject and respond each end the waiting", everyAnswer},
		{"single use", "a question that was answered cannot be answered again, whatever the answer", singleUse},
		{"first wins", "of K answers at once the first is recorded and the others learn that they were late", firstWins},
		{"unknown", "an answer to nothing is a conflict and saves nothing", unknownInterrupt},
		{"foreign", "an answer to another thread's question, or another namespace's, is a conflict", foreignInterrupt},
		{"expired", "no answer is taken after a question expired", expiredInterrupt},
		{"not allowed", "an answer that is not among those allowed is refused", notAllowed},
		{"an answer that lacks something", "an edit needs arguments that are JSON, and nothing else has any", lackingAnswer},
		{"all or none", "of several answers in one save all count or none", allOrNone},
		{"answered for good", "a question that was answered and is named again waits no more", answeredForGood},
		{"any arguments", "whatever the arguments are, the question can be answered after it was loaded", anyArguments},
	}
}

func severalWait(f *fixture) {
	s := f.asked(3)
	ids := waiting(s)
	if ids[0] == ids[1] || ids[1] == ids[2] {
		f.Fatalf("the ids are %v", ids)
	}
	f.same("what waits", waiting(f.get(s.ThreadKey)), ids)
	s = f.save(decided(s, approve(s.Interrupts[1])))
	f.same("what waits after the second was answered", waiting(s), []string{ids[0], ids[2]})
	f.stands(s)
	s = f.save(decided(f.get(s.ThreadKey), approve(s.Interrupts[0]), approve(s.Interrupts[1])))
	f.same("after all", len(f.get(s.ThreadKey).Interrupts), 0)
	f.same("Decisions, returned", len(s.Decisions), 0)
}

func theyWaitOn(f *fixture) {
	s := f.asked(1)
	first := s.Interrupts
	s = f.save(more(s, "on"))
	s = f.save(more(f.get(s.ThreadKey), "and on"))
	f.same("what waits", waiting(f.get(s.ThreadKey)), []string{first[0].ID})
	s.Interrupts = append(s.Interrupts[:1:1], f.question(s.ThreadKey, `{}`, segno.Approve))
	s = f.save(more(s, "one more"))
	f.same("what waits with one more", len(waiting(f.get(s.ThreadKey))), 2)
	s.Interrupts = nil // what is not mentioned waits all the same
	s = f.save(more(s, "silent"))
	f.same("what waits after a save that did not mention it", len(waiting(f.get(s.ThreadKey))), 2)
	f.same("what that save returned", len(waiting(s)), 2)
}

func everyAnswer(f *fixture) {
	for _, d := range []segno.Decision{{Kind: segno.Approve}, {Kind: segno.Edit, Args: json.RawMessage(`{"to":"b@example.com"}`)},
		{Kind: segno.Reject, Text: "no"}, {Kind: segno.Respond, Text: "it is done"}} {
		s := f.asked(1)
		d.Interrupt, d.Actor, d.Time = s.Interrupts[0].ID, "ann", f.now()
		s = f.save(decided(f.get(s.ThreadKey), d))
		f.same("what waits after "+string(d.Kind), len(waiting(f.get(s.ThreadKey))), 0)
	}
}

func singleUse(f *fixture) {
	s := f.asked(1)
	i := s.Interrupts[0]
	answered := f.save(decided(s, approve(i)))
	for _, kind := range []segno.DecisionKind{segno.Approve, segno.Reject} {
		_, err := f.saver.Save(f.Context(), decided(answered, segno.Decision{Interrupt: i.ID, Kind: kind}))
		f.kind(err, segno.KindConflict)
		_, err = f.saver.Save(f.Context(), decided(f.get(s.ThreadKey), segno.Decision{Interrupt: i.ID, Kind: kind}))
		f.kind(err, segno.KindConflict)
	}
	_, err := f.saver.Save(f.Context(), decided(s, approve(i)))
	f.kind(err, segno.KindConflict)
	s = f.asked(1)
	_, err = f.saver.Save(f.Context(), decided(s, approve(s.Interrupts[0]), approve(s.Interrupts[0])))
	f.kind(err, segno.KindConflict)
	f.stands(s)
}

func firstWins(f *fixture) {
	s := f.asked(1)
	const answers = 6
	var mu sync.Mutex
	var won, lost int
	var errs []error
	var group sync.WaitGroup
	for k := range answers {
		d := approve(s.Interrupts[0])
		d.Kind = []segno.DecisionKind{segno.Approve, segno.Reject}[k%2]
		mine := decided(f.get(s.ThreadKey), d)
		group.Go(func() {
			_, err := f.saver.Save(f.Context(), mine)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case segno.KindOf(err) == segno.KindConflict:
				lost++
			default:
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	f.ok(errors.Join(errs...))
	f.same("won and lost", []int{won, lost}, []int{1, answers - 1})
	f.same("what waits", len(waiting(f.get(s.ThreadKey))), 0)
	f.same("steps", f.get(s.ThreadKey).Step, 2)
}

func unknownInterrupt(f *fixture) {
	s := f.asked(1)
	for _, id := range []string{"nobody", ""} {
		_, err := f.saver.Save(f.Context(), more(decided(s, segno.Decision{Interrupt: id, Kind: segno.Approve}), "not saved"))
		f.kind(err, segno.KindConflict)
		f.stands(s)
	}
}

func foreignInterrupt(f *fixture) {
	s, other := f.asked(1), f.asked(1)
	part := s.ThreadKey
	part.Namespace = "part"
	inPart := f.begin(part, "x")
	for _, mine := range []saver.Snapshot{other, inPart} {
		_, err := f.saver.Save(f.Context(), decided(mine, approve(s.Interrupts[0])))
		f.kind(err, segno.KindConflict)
		f.stands(mine)
	}
	f.stands(s)
}

func expiredInterrupt(f *fixture) {
	s := more(saver.Snapshot{ThreadKey: f.address()}, "hello")
	old, young := f.question(s.ThreadKey, `{}`, segno.Approve), f.question(s.ThreadKey, `{}`, segno.Approve)
	old.Expires, young.Expires = f.now().Add(-time.Second), f.now().Add(time.Hour)
	s.Interrupts = []segno.Interrupt{old, young}
	s = f.save(s)
	_, err := f.saver.Save(f.Context(), decided(s, approve(old)))
	f.kind(err, segno.KindRefused)
	f.stands(s)
	s = f.save(decided(s, approve(young)))
	f.same("what waits", waiting(f.get(s.ThreadKey)), []string{old.ID})
	again := f.question(s.ThreadKey, `{}`, segno.Approve)
	again.Replaces = old.ID
	s.Interrupts = append(s.Interrupts, again)
	s = f.save(s)
	f.same("what waits when it was asked anew", waiting(f.get(s.ThreadKey)), []string{again.ID})
	stale := more(s)
	stale.Interrupts = []segno.Interrupt{old, again}
	s = f.save(stale)
	f.same("what waits when the old one is named again", waiting(f.get(s.ThreadKey)), []string{again.ID})
	f.stands(s)
}

func notAllowed(f *fixture) {
	s := more(saver.Snapshot{ThreadKey: f.address()}, "hello")
	s.Interrupts = []segno.Interrupt{f.question(s.ThreadKey, `{}`, segno.Approve, segno.Reject)}
	s = f.save(s)
	for _, kind := range []segno.DecisionKind{segno.Edit, segno.Respond, "", "yes"} {
		_, err := f.saver.Save(f.Context(), decided(s, segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: kind}))
		f.kind(err, segno.KindRefused)
	}
	f.stands(s)
}

func lackingAnswer(f *fixture) {
	s := f.asked(1)
	for _, d := range []segno.Decision{{Kind: segno.Edit}, {Kind: segno.Edit, Args: json.RawMessage(`{"half`)}, {Kind: segno.Approve, Args: json.RawMessage(`{}`)}} {
		d.Interrupt = s.Interrupts[0].ID
		_, err := f.saver.Save(f.Context(), decided(s, d))
		f.kind(err, segno.KindInvalid)
	}
	f.stands(s)
}

func allOrNone(f *fixture) {
	s := f.asked(2)
	_, err := f.saver.Save(f.Context(), more(decided(s, approve(s.Interrupts[0]), segno.Decision{Interrupt: "nobody", Kind: segno.Approve}), "not saved"))
	f.kind(err, segno.KindConflict)
	f.stands(s)
}

func anyArguments(f *fixture) {
	for _, args := range []string{``, `{}`, `null`, `9007199254740993`, `{"b":1,"a":2}`, `{"html":"<b>&</b>"}`, "\n{ \"to\" :\t\"a\" }\n", `"\u003c\u2028"`, "\"\u2028\"", `{"a":1,"a":2}`} {
		for _, load := range []bool{false, true} {
			s := more(saver.Snapshot{ThreadKey: f.address()}, "hello")
			s.Interrupts = []segno.Interrupt{f.question(s.ThreadKey, args, segno.Approve)}
			if args == "" {
				s.Interrupts[0].Args = nil
			}
			if s = f.save(s); load {
				s = f.get(s.ThreadKey)
			}
			f.same("its arguments", spelt(s.Interrupts[0].Args), spelt(json.RawMessage(args)))
			f.save(decided(s, approve(s.Interrupts[0])))
		}
	}
}

func answeredForGood(f *fixture) {
	asked := f.asked(1)
	questions := asked.Interrupts
	s := f.save(decided(asked, approve(questions[0])))
	for _, s := range []saver.Snapshot{s, f.get(s.ThreadKey)} {
		s.Interrupts = questions
		_, err := f.saver.Save(f.Context(), more(s, "named again"))
		if err != nil {
			f.kind(err, segno.KindConflict)
			continue
		}
		f.same("what waits", len(waiting(f.get(s.ThreadKey))), 0)
		s = f.get(s.ThreadKey)
		s.Interrupts = questions
		_, err = f.saver.Save(f.Context(), decided(s, approve(questions[0])))
		f.kind(err, segno.KindConflict)
		s.Interrupts = nil
	}
}
