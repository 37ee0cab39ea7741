package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// SaverOptions are what only the saver's own test can do.
type SaverOptions struct {
	// Reopen opens what s saves to again, as a later process does. It is nil for a
	// saver that does not outlive its process.
	Reopen func(t *testing.T, s saver.Saver) saver.Saver
	// Another opens it once more beside s, as another process does.
	Another func(t *testing.T, s saver.Saver) saver.Saver
	// Clock is what the saver reads the time from.
	Clock *Clock
}

// TestSaver holds somebody's own kind of saver to the clauses of the small
// interface. open returns a new empty saver; what it holds is released by
// t.Cleanup. [Historian], [Traveller] and [Forker] are found by assertion. A
// saver that [saver.New] makes of a store is asked more by [Test].
func TestSaver(t *testing.T, open func(t *testing.T) saver.Saver, o SaverOptions) {
	run(t, saverGroups(), func(t *testing.T) *fixture {
		f := &fixture{tester: t, T: t, o: Options{Clock: o.Clock}, saver: open(t)}
		if o.Reopen != nil {
			f.reopen = func() { f.saver = o.Reopen(t, f.saver) }
		}
		if o.Another != nil {
			f.another = func() saver.Saver { return o.Another(t, f.saver) }
		}
		return f
	})
}

// saverGroups are the clauses of a saver.
func saverGroups() []group {
	return append([]group{
		{"saver", saves(), nil}, {"saver", contents(), nil}, {"saver", addresses(), nil}, {"saver", saverRaces(), nil},
		{"saver", otherSavers(), []ability{another}}, {"interrupt", interrupts(), nil},
		{"history", histories(), []ability{historian}}, {"travel", travels(), []ability{historian, traveller}},
		{"fork", forks(), []ability{historian, traveller, forker}},
		{"travel", journeys(), []ability{historian, traveller, forker}},
		{"state", states(), []ability{onStore, historian, traveller, forker}}, {"reopen", reopenings(), []ability{reopens}},
		{"state", leasedSaves(), []ability{onStore, leaser}}, {"travel", turnTravels(), []ability{onStore}},
		{"reopen", lostEffects(), []ability{reopens, onStore}},
	}, langgraphGroups()...)
}

// address is one that is new in this fixture.
func (f *fixture) address() saver.ThreadKey { return saver.ThreadKey{Thread: f.id("thread")} }

func (f *fixture) save(s saver.Snapshot) saver.Snapshot {
	f.Helper()
	s, err := f.saver.Save(f.Context(), s)
	f.ok(err)
	return s
}

// begin saves a thread's first checkpoint.
func (f *fixture) begin(a saver.ThreadKey, said ...string) saver.Snapshot {
	f.Helper()
	return f.save(more(saver.Snapshot{ThreadKey: a}, said...))
}

func (f *fixture) get(a saver.ThreadKey) saver.Snapshot {
	f.Helper()
	s, err := f.saver.Load(f.Context(), a)
	f.ok(err)
	return s
}

// absent wants nothing to be at an address.
func (f *fixture) absent(a saver.ThreadKey) {
	f.Helper()
	_, err := f.saver.Load(f.Context(), a)
	f.kind(err, segno.KindNotFound)
	f.exists(a, false)
}

func (f *fixture) exists(a saver.ThreadKey, want bool) {
	f.Helper()
	got, err := f.saver.Exists(f.Context(), a)
	f.ok(err)
	f.same(fmt.Sprintf("whether %q exists", a), got, want)
}

func (f *fixture) infos(namespace string) (found []saver.Info) {
	f.Helper()
	for i, err := range f.saver.List(f.Context(), namespace) {
		f.ok(err)
		found = append(found, i)
	}
	return found
}

// saved is the addresses a namespace lists.
func (f *fixture) saved(namespace string) (found []saver.ThreadKey) {
	f.Helper()
	for _, i := range f.infos(namespace) {
		found = append(found, i.ThreadKey)
	}
	return found
}

// tick lets time pass, if it is ours.
func (f *fixture) tick(d time.Duration) {
	if f.o.Clock != nil {
		f.o.Clock.Advance(d)
	}
}

// said is a message.
func said(text string) json.RawMessage {
	body, err := json.Marshal(map[string]string{"role": "user", "content": text})
	if err != nil {
		panic(err) // a map of strings encodes
	}
	return body
}

// more is s with messages added, for the next step; s itself is left alone.
func more(s saver.Snapshot, texts ...string) saver.Snapshot {
	s.Step, s.Messages = 0, append([]json.RawMessage(nil), s.Messages...)
	for _, text := range texts {
		s.Messages = append(s.Messages, said(text))
	}
	return s
}

// state is values by their keys.
func state(pairs ...string) map[string]json.RawMessage {
	s := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		s[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return s
}

// view is all that a user sees of a [saver.Snapshot]. JSON that differs only in how it
// is spelt is the same.
type view struct {
	saver.ThreadKey
	ID               segno.CommitID
	Step             int
	Messages         []string
	State            map[string]string
	Interrupts       []segno.Interrupt
	Meta             map[string]string
	Created, Updated time.Time
}

func viewOf(s saver.Snapshot) view {
	v := view{ThreadKey: s.ThreadKey, ID: s.ID, Step: s.Step, State: map[string]string{}, Meta: map[string]string{}, Created: s.Created, Updated: s.Updated}
	for _, m := range s.Messages {
		v.Messages = append(v.Messages, spelt(m))
	}
	for key, value := range s.State {
		v.State[key] = spelt(value)
	}
	for key, value := range s.Meta {
		v.Meta[key] = value
	}
	for _, i := range s.Interrupts {
		i.Args = json.RawMessage(spelt(i.Args))
		v.Interrupts = append(v.Interrupts, i)
	}
	return v
}

// spelt is raw in one spelling; none is null.
func spelt(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	var tight, safe bytes.Buffer
	if json.Compact(&tight, raw) != nil {
		return string(raw)
	}
	json.HTMLEscape(&safe, tight.Bytes())
	return safe.String()
}

// alike wants two of them to be the same for a user.
func (f *fixture) alike(what string, got, want saver.Snapshot) {
	f.Helper()
	f.same(what, viewOf(got), viewOf(want))
}

// stands wants the newest checkpoint of a thread to be s.
func (f *fixture) stands(s saver.Snapshot) {
	f.Helper()
	f.alike("what is loaded", f.get(s.ThreadKey), s)
}
