package storetest

import (
	"encoding/json"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

var contentTests = []test{
	{"messages", "messages can be added, changed, removed and replaced", func(f *fixture) {
		s := f.begin(f.address(), "one", "two", "three")
		for _, change := range []func(m []json.RawMessage) []json.RawMessage{
			func(m []json.RawMessage) []json.RawMessage { return append(m, message("four")) },
			func(m []json.RawMessage) []json.RawMessage { m[1] = message("two, changed"); return m },
			func(m []json.RawMessage) []json.RawMessage { return m[:2] },
			func([]json.RawMessage) []json.RawMessage {
				return []json.RawMessage{message("a summary"), message("a question")}
			},
			func(m []json.RawMessage) []json.RawMessage { return append(m, message("an answer")) },
			func([]json.RawMessage) []json.RawMessage { return nil },
			func(m []json.RawMessage) []json.RawMessage { return append(m, message("again")) },
		} {
			want := with(s)
			want.Messages = change(want.Messages)
			s = f.save(want)
			f.same("the messages", viewOf(s).Messages, viewOf(want).Messages)
			f.isLatest(s)
			s = f.latest(s.ThreadKey)
		}
	}},
	{"state", "values can be set, changed, set to null and removed; the others stay", func(f *fixture) {
		s := saver.Snapshot{ThreadKey: f.address()}
		for _, state := range []map[string]json.RawMessage{
			values("a", `1`, "b", `{"x":[]}`, "", `"the empty key"`, "k\x00\u00e9", `"v"`),
			values("a", `2`, "b", `{"x":[]}`, "c", `[null]`),
			{"a": nil, "b": json.RawMessage(`{"x":[]}`)},
			values("b", `{"x":[]}`),
			values("b", `{"x":[]}`, "late", `"AAEC/w=="`),
			nil,
		} {
			want := saver.Snapshot{State: state}
			s.State = state
			s = f.save(s)
			f.same("the state", viewOf(f.latest(s.ThreadKey)).State, viewOf(want).State)
			f.isLatest(s)
		}
	}},
	{"any value", "messages and values can be any JSON and are returned unchanged", func(f *fixture) {
		s := saver.Snapshot{ThreadKey: f.address(), State: map[string]json.RawMessage{}}
		for _, v := range unusualJSON() {
			s.Messages = append(s.Messages, json.RawMessage(v))
			s.State["key of "+v] = json.RawMessage(v)
		}
		f.isLatest(f.save(with(f.save(s), "more")))
		f.isLatest(f.save(with(f.latest(s.ThreadKey), "more")))
	}},
	{"a changed message", "Save finds messages that changed in place; the older checkpoint keeps its own", func(f *fixture) {
		for name, change := range map[string]func(m []json.RawMessage) []json.RawMessage{
			"replaced":          func(m []json.RawMessage) []json.RawMessage { m[1] = message("TWO"); return m },
			"overwritten":       func(m []json.RawMessage) []json.RawMessage { copy(m[0], message("ONE")); return m },
			"removed":           func(m []json.RawMessage) []json.RawMessage { return slices.Delete(m, 1, 2) },
			"swapped":           func(m []json.RawMessage) []json.RawMessage { m[0], m[1] = m[1], m[0]; return m },
			"inserted":          func(m []json.RawMessage) []json.RawMessage { return slices.Insert(m, 0, message("zero")) },
			"changed and added": func(m []json.RawMessage) []json.RawMessage { m[2] = message("THREE"); return append(m, m[0]) },
		} {
			first := f.begin(f.address(), "one", "two", "three")
			want := viewOf(first)
			changed := first
			changed.Messages = change(slices.Clone(first.Messages))
			saved := f.save(changed)
			f.same(name+": the result of Save", viewOf(saved).Messages, viewOf(changed).Messages)
			f.isLatest(saved)
			if old, ok := f.saver.(Traveler); ok {
				kept, err := old.At(f.Context(), first.ThreadKey, want.ID)
				f.ok(err)
				f.same(name+": the older checkpoint", viewOf(kept).Messages, want.Messages)
			}
		}
	}},
	{"invalid JSON", "invalid JSON is refused, and its save stores nothing", func(f *fixture) {
		s := f.begin(f.address(), "one")
		bad := with(s, "two")
		bad.Messages = append(bad.Messages, json.RawMessage(`{"half":`))
		f.kind(f.saveErr(bad), segno.KindInvalid)
		bad = s
		bad.State = values("k", `nonsense`)
		f.kind(f.saveErr(bad), segno.KindInvalid)
		f.isLatest(s)
		bad = saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{[]byte("{")}}
		f.kind(f.saveErr(bad), segno.KindInvalid)
		f.notFound(bad.ThreadKey)
	}},
	{"a loaded value is a copy", "changing a value that was passed in, returned or loaded does not change the stored value", testCopies},
	{"saved by another program", "a checkpoint that another program received as JSON can be saved", func(f *fixture) {
		s := f.save(f.rich(f.address()))
		data, err := json.Marshal(s)
		f.ok(err)
		var received saver.Snapshot
		f.ok(json.Unmarshal(data, &received))
		saved := f.save(with(received, "more"))
		f.same("the step", saved.Step, 2)
		f.same("Created", saved.Created, s.Created)
		f.isLatest(saved)
		f.same("the number of messages", len(f.latest(s.ThreadKey).Messages), 3)
	}},
}

// unusualJSON returns JSON values that some encoders or databases change.
func unusualJSON() []string {
	return []string{`null`, `true`, `""`, `{}`, `[]`, `0`, `-0`, `1.0`, `2.50`, `1e400`, `9007199254740993`, `-9223372036854775808`,
		`18446744073709551615`, `123456789012345678901234567890`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`,
		`"<b>&amp;</b>"`, `"\u2028\u2029"`, "\"\u2028\"", `"AAEC/w=="`, `{"unknown":{"kept":[1.0,{"deep":null}]}}`, `{"b":1,"a":2}`,
		`{"a":1,"a":2}`, `{"":0}`, `{"__proto__":{"x":1}}`, `"\\u0000"`, `"💾"`, `"e\u0301"`}
}

// overwrite changes every part of s that can be changed in place.
func overwrite(s saver.Snapshot) {
	for _, m := range s.Messages {
		clear(m)
	}
	for key, v := range s.State {
		clear(v)
		s.State[key] = []byte(`"overwritten"`)
	}
	for key := range s.Meta {
		s.Meta[key] = "overwritten"
	}
	for _, i := range s.Interrupts {
		clear(i.Args)
		clear(i.Allowed)
	}
}

func testCopies(f *fixture) {
	a := f.address()
	given := f.rich(a)
	data, err := json.Marshal(given)
	f.ok(err)
	var want saver.Snapshot
	f.ok(json.Unmarshal(data, &want))
	got := f.save(given)
	want.ID, want.Step, want.Created, want.Updated = got.ID, got.Step, got.Created, got.Updated
	overwrite(given)
	f.equal("after changing the argument of Save", f.latest(a), want)
	overwrite(got)
	f.equal("after changing the result of Save", f.latest(a), want)
	overwrite(f.latest(a))
	f.equal("after changing the result of Load", f.latest(a), want)

	one, two := f.latest(a), f.latest(a)
	copy(one.State["todos"], `[{"id":2,`)
	saved := f.save(one)
	f.same("a value changed in place and saved", string(f.latest(a).State["todos"]), `[{"id":2,"done":false}]`)
	f.same("the same value of another copy", string(two.State["todos"]), `[{"id":1,"done":false}]`)
	// A caller cannot allow itself a decision that the stored question does not allow.
	for _, s := range []saver.Snapshot{f.latest(a), saved} {
		s.Interrupts[0].Allowed = append(s.Interrupts[0].Allowed[:0], segno.Respond)
		respond := segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: segno.Respond, Text: "x"}
		f.kind(f.saveErr(decided(s, respond)), segno.KindRefused)
	}
	saved.Interrupts = f.latest(a).Interrupts
	copy(saved.State["todos"], `[{"id":3,`)
	f.save(saved)
	f.same("a value changed in place and saved again", string(f.latest(a).State["todos"]), `[{"id":3,"done":false}]`)
}
