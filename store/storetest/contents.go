package storetest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// contentTests test the messages and values of a checkpoint.
var contentTests = []test{
	{"messages", "messages can be added, changed in place, removed and replaced; older checkpoints keep theirs", testMessages},
	{"state and meta", "values can be set, changed, set to null and removed; Meta is of one checkpoint only", func(f *fixture) {
		s := saver.Snapshot{ThreadKey: f.address()}
		for _, state := range []map[string]json.RawMessage{
			values("a", `1`, "b", `{"x":[]}`, "", `"the empty key"`, "k\x00\u00e9", `"v"`),
			values("a", `2`, "b", `{"x":[]}`, "c", `[null]`),
			{"a": nil, "b": json.RawMessage(`{"x":[]}`)},
			values("b", `{"x":[]}`),
			values("b", `{"x":[]}`, "late", `"AAEC/w=="`),
			nil,
		} {
			s.State, s.Meta = state, nil
			if len(state) > 1 {
				s.Meta = pairs{"number of values": fmt.Sprint(len(state)), "\x00é": ""}
			}
			want := s
			s = f.save(s)
			want.Step = s.Step
			f.sameContent("the loaded checkpoint", f.latest(s.ThreadKey), want)
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
		data := returned(json.Marshal(s)).ok(f)
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
	data := returned(json.Marshal(given)).ok(f)
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
	// A caller must not be able to allow a decision that the stored question does not allow.
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

func testMessages(f *fixture) {
	s := f.begin(f.address(), "one", "two", "three")
	type messages = []json.RawMessage
	for name, change := range []func(m messages) messages{
		func(m messages) messages { return append(m, message("four")) },
		func(m messages) messages { m[1] = message("two, changed"); return m },
		func(m messages) messages { copy(m[0], message("ONE")); return m },
		func(m messages) messages { return slices.Delete(m, 1, 2) },
		func(m messages) messages { m[0], m[1] = m[1], m[0]; return m },
		func(m messages) messages { return slices.Insert(m, 0, message("zero")) },
		func(m messages) messages { m[2] = message("THREE"); return append(m, m[0]) },
		func(m messages) messages { return m[:2] },
		func(messages) messages { return messages{message("a summary"), message("a question")} },
		func(m messages) messages { return append(m, message("an answer")) },
		func(messages) messages { return nil },
		func(m messages) messages { return append(m, message("again")) },
	} {
		id, before := s.ID, texts(s)
		changed := with(s)
		changed.Messages = change(changed.Messages)
		want := texts(changed)
		s = f.save(changed)
		f.same(fmt.Sprint("the messages after change ", name), texts(s), want)
		f.isLatest(s)
		if _, ok := f.saver.(Traveler); ok {
			f.same("the messages of the older checkpoint", texts(f.at(s.ThreadKey, id)), before)
		}
		s = f.latest(s.ThreadKey)
	}
}
