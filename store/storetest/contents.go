package storetest

import (
	"encoding/json"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

func contents() []clause {
	return []clause{
		{"messages", "messages are added, changed and taken back: what is loaded is what was saved", savedMessages},
		{"state", "values are set, changed, made null and taken away, and the others stay", savedState},
		{"any value", "messages and values are any JSON, and come back as they were: big numbers, NUL, lone surrogates, unknown fields", anyValue},
		{"a changed message", "whatever the caller changed in an earlier message is saved, also in the message's own buffer, and the older checkpoint keeps its own", changedMessage},
		{"ten megabytes", "a message may be ten megabytes long", tenMegabyteMessage},
		{"what is no JSON", "what is not JSON is refused, and nothing of its save is there", savedNoJSON},
		{"a loaded value is a copy", "changing what was saved, returned or loaded changes nothing that is stored", loadedCopy},
		{"saved from afar", "a checkpoint that went through JSON to another program is saved onto like any other", savedFromAfar},
	}
}

func savedMessages(f *fixture) {
	s := f.begin(f.address(), "one", "two", "three")
	s = f.save(more(s, "four"))
	f.stands(s)
	s.Messages = slices.Clone(s.Messages)
	s.Messages[1], s.Kept = said("two, changed"), 1
	s = f.save(s)
	f.stands(s)
	s.Messages, s.Kept = s.Messages[:2:2], 2
	s = f.save(s)
	f.stands(s)
	f.same("how many are left", len(f.get(s.ThreadKey).Messages), 2)
	s.Messages, s.Kept = []json.RawMessage{said("a summary")}, 0
	s = f.save(s)
	f.stands(s)
	s = f.save(more(f.get(s.ThreadKey), "and on"))
	f.stands(s)
	s.Messages, s.Kept = nil, 0
	s = f.save(s)
	f.same("none are left", len(f.get(s.ThreadKey).Messages), 0)
	f.stands(f.save(more(s, "anew")))
}

// changedMessage edits messages as programs do, without a word to the saver.
func changedMessage(f *fixture) {
	for name, change := range map[string]func(m []json.RawMessage) []json.RawMessage{
		"a message is replaced": func(m []json.RawMessage) []json.RawMessage { m[1] = said("TWO"); return m },
		"a buffer is reused":    func(m []json.RawMessage) []json.RawMessage { copy(m[0], said("ONE")); return m },
		"one is left out":       func(m []json.RawMessage) []json.RawMessage { return slices.Delete(m, 1, 2) },
		"two change places":     func(m []json.RawMessage) []json.RawMessage { m[0], m[1] = m[1], m[0]; return m },
		"one is put before":     func(m []json.RawMessage) []json.RawMessage { return slices.Insert(m, 0, said("zero")) },
		"one is changed and one is added": func(m []json.RawMessage) []json.RawMessage {
			m[2] = said("THREE")
			return append(m, said("four"))
		},
	} {
		first := f.begin(f.address(), "one", "two", "three")
		want := viewOf(first)
		changed := first
		changed.Messages = change(slices.Clone(first.Messages))
		after := f.save(changed)
		f.same(name+": what Save returned", viewOf(after).Messages, viewOf(changed).Messages)
		f.stands(after)
		if old, ok := f.saver.(Historian); ok {
			kept, err := old.At(f.Context(), first.ThreadKey, want.ID)
			f.ok(err)
			f.same(name+": the older checkpoint", viewOf(kept).Messages, want.Messages)
		}
	}
}

func savedState(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address(), State: state("a", `1`, "b", `{"x":[]}`, "", `"the empty key"`, "k\x00\u00e9", `"v"`)}
	s = f.save(s)
	f.stands(s)
	s.State = state("a", `2`, "b", `{"x":[]}`, "c", `[null]`)
	s = f.save(s)
	f.stands(s)
	s.State = map[string]json.RawMessage{"a": nil, "b": json.RawMessage(`{"x":[]}`)}
	s = f.save(s)
	f.stands(s)
	f.same("a value of nothing", spelt(f.get(s.ThreadKey).State["a"]), "null")
	s = f.get(s.ThreadKey)
	delete(s.State, "a")
	s = f.save(s)
	f.stands(s)
	s.State = nil
	s = f.save(s)
	f.same("what is left", len(f.get(s.ThreadKey).State), 0)
}

// odd are JSON values that some encoding or database changes.
func odd() []string {
	return []string{`null`, `true`, `""`, `{}`, `[]`, `0`, `-0`, `1.0`, `2.50`, `1e400`, `9007199254740993`, `-9223372036854775808`, `18446744073709551615`,
		`123456789012345678901234567890`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, `"<b>&amp;</b>"`, `"\u2028\u2029"`, `"AAEC/w=="`,
		`{"unknown":{"kept":[1.0,{"deep":null}]}}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"":0}`, `{"__proto__":{"x":1}}`, `"\\u0000"`, `"💾"`, `"e\u0301"`}
}

func anyValue(f *fixture) {
	s := saver.Snapshot{ThreadKey: f.address(), State: map[string]json.RawMessage{}}
	for _, v := range odd() {
		s.Messages = append(s.Messages, json.RawMessage(v))
		s.State["of "+v] = json.RawMessage(v)
	}
	s = f.save(s)
	f.stands(s)
	s = f.save(more(f.get(s.ThreadKey), "and on"))
	f.stands(s)
}

func tenMegabyteMessage(f *fixture) {
	big, err := json.Marshal(noise(10 << 20))
	f.ok(err)
	s := f.save(saver.Snapshot{ThreadKey: f.address(), Messages: []json.RawMessage{big}})
	s = f.save(more(s, "and on"))
	got := f.get(s.ThreadKey)
	if len(got.Messages) != 2 || string(got.Messages[0]) != string(big) {
		f.Fatal("it came back different")
	}
}

func savedNoJSON(f *fixture) {
	s := f.begin(f.address(), "one")
	bad := more(s, "two")
	bad.Messages = append(bad.Messages, json.RawMessage(`{"half":`))
	_, err := f.saver.Save(f.Context(), bad)
	f.kind(err, segno.KindInvalid)
	f.stands(s)
	bad = s
	bad.State = state("k", `nonsense`)
	_, err = f.saver.Save(f.Context(), bad)
	f.kind(err, segno.KindInvalid)
	f.stands(s)
	fresh := f.address()
	_, err = f.saver.Save(f.Context(), saver.Snapshot{ThreadKey: fresh, Messages: []json.RawMessage{[]byte("{")}})
	f.kind(err, segno.KindInvalid)
	f.absent(fresh)
}

// spoil changes all that can be changed in place.
func spoil(s saver.Snapshot) {
	for _, m := range s.Messages {
		clear(m)
	}
	for key, v := range s.State {
		clear(v)
		s.State[key] = []byte(`"spoilt"`)
	}
	for key := range s.Meta {
		s.Meta[key] = "spoilt"
	}
	for _, i := range s.Interrupts {
		clear(i.Args)
		clear(i.Allowed)
	}
}

func loadedCopy(f *fixture) {
	a := f.address()
	given := f.rich(a)
	want := f.rich(a)
	want.Interrupts[0] = f.copied(given.Interrupts[0])
	got := f.save(given)
	want.ID, want.Step, want.Created, want.Updated = got.ID, got.Step, got.Created, got.Updated
	spoil(given)
	f.alike("after changing what was saved", f.get(a), want)
	spoil(got)
	f.alike("after changing what Save returned", f.get(a), want)
	loaded := f.get(a)
	spoil(loaded)
	f.alike("after changing what was loaded", f.get(a), want)

	one, two := f.get(a), f.get(a)
	copy(one.State["todos"], `[{"id":2,`)
	saved := f.save(one)
	f.same("a value changed in place and saved", string(f.get(a).State["todos"]), `[{"id":2,"done":false}]`)
	loaded = f.get(a)
	loaded.Interrupts[0].Allowed = append(loaded.Interrupts[0].Allowed[:0], segno.Respond)
	_, err := f.saver.Save(f.Context(), decided(loaded, segno.Decision{Interrupt: loaded.Interrupts[0].ID, Kind: segno.Respond, Text: "x"}))
	f.kind(err, segno.KindRefused)
	saved.Interrupts[0].Allowed[0] = segno.Respond
	_, err = f.saver.Save(f.Context(), decided(saved, segno.Decision{Interrupt: saved.Interrupts[0].ID, Kind: segno.Respond, Text: "x"}))
	f.kind(err, segno.KindRefused)
	saved.Interrupts = f.get(a).Interrupts
	f.same("the same value of another copy", string(two.State["todos"]), `[{"id":1,"done":false}]`)
	copy(saved.State["todos"], `[{"id":3,`)
	f.save(saved)
	f.same("a value changed in place and saved again", string(f.get(a).State["todos"]), `[{"id":3,"done":false}]`)
}

func savedFromAfar(f *fixture) {
	a := f.address()
	s := f.save(f.rich(a))
	data, err := json.Marshal(s)
	f.ok(err)
	var far saver.Snapshot
	f.ok(json.Unmarshal(data, &far))
	far = more(far, "from afar")
	far.Step = 0
	far = f.save(far)
	f.same("its step", far.Step, 2)
	f.same("created", far.Created, s.Created)
	f.stands(far)
	f.same("messages", len(f.get(a).Messages), 3)
}
