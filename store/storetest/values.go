package storetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// full is a checkpoint with everything set.
func full(tree, data string) *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 7, Time: epoch.Add(123456789), Agent: "claude", Prompt: "fix\x00 the <b>&\u2028 bug\xff", Label: "a label",
		Step: 1 << 33, Meta: map[string]string{"": "", "a key\x00": "a value\xff"}, Key: "key", Interrupted: true, Shared: true, Amends: "older", Files: segno.Counts{Added: 1, Modified: 2, Deleted: 3, Protected: 4}, Shell: 4,
		Session: &segno.Position{Agent: "claude", Session: "s", Dir: "/dir", Path: "/p\xff", Leaf: "leaf", Offset: 1 << 60, SHA256: name("x"),
			Digest: []byte{0, 1, 255}, Log: name(data), Sidecars: name(data), Version: "2.1"},
		Workspace: &segno.Snapshot{Workspace: "w", Root: "/root\xff", Tree: name(tree), Times: name(data), Files: 3, Bytes: 1 << 61,
			Unread: []string{"a", "b\xffc", "d\ne"}, Held: []string{"f", "g\xffh"}, Git: &segno.Git{Head: "abc", Branch: "main", Operation: "rebase"}},
		State:   &segno.Document{Type: "todo/2", Data: name(data)},
		World:   &segno.Document{Type: "world/1", Data: name(data)},
		Members: map[string]segno.CommitID{"one": "m1", "two\x00": "m2"}}
}

func values() []clause {
	return []clause{
		{"every field", "a checkpoint comes back with every field as it was", everyField},
		{"bodies", "an entry's body comes back byte for byte, unknown fields and big numbers included", bodies},
		{"a body that is no JSON", "what is not JSON is refused, not stored as something else", aBodyThatIsNoJSON},
		{"10 MB", "a body may be ten megabytes long", tenMegabytes},
		{"many entries", "a commit may have thousands of entries, in order", manyEntries},
		{"times", "a moment comes back as that moment, from any zone; none comes back as none", moments},
		{"aliasing", "what is passed in and what is returned are copies: changing them changes nothing", aliasing},
	}
}

func aliasing(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Staged = f.stage(tree("data"), "data")
	c.Checkpoint = full(tree("data"), "data")
	want := *full(tree("data"), "data")
	want.ID, want.Thread, want.Parent, want.Seq = c.ID, c.Thread, c.Parent, 2
	entries := []segno.Entry{{Kind: segno.EntryNote, Body: json.RawMessage(`"body"`)}}
	c.Entries = []segno.Entry{{Kind: segno.EntryNote, Body: json.RawMessage(`"body"`)}}
	f.commit(c)
	spoil := func(cp *segno.Checkpoint, es []segno.Entry) {
		cp.Prompt, cp.Session.Leaf, cp.Session.Digest[0], cp.Workspace.Root = "spoilt", "spoilt", 9, "spoilt"
		cp.Workspace.Unread[0], cp.Workspace.Git.Head, cp.State.Type, cp.World.Type, cp.Members["one"] = "spoilt", "spoilt", "spoilt", "spoilt", "spoilt"
		cp.Meta[""] = "spoilt"
		if len(es) > 0 {
			es[0].Body[1], es[0].Kind = 'X', "spoilt"
		}
	}
	intact := func(after string) {
		f.Helper()
		n := f.load(c.ID)[1]
		f.same("the checkpoint after changing what "+after, *n.Checkpoint, want)
		f.same("the entries after changing what "+after, n.Entries, entries)
		f.same("the list after changing what "+after, f.list(segno.CheckpointQuery{Limit: 1})[0], want)
	}
	spoil(c.Checkpoint, c.Entries)
	intact("was passed in")
	n := f.load(c.ID)[1]
	spoil(n.Checkpoint, n.Entries)
	intact("was loaded")
	spoil(&f.list(segno.CheckpointQuery{Limit: 1})[0], nil)
	intact("was listed")

	b := f.store.Objects().Batch()
	data := []byte("an object")
	_, err := b.Put(f.Context(), data)
	f.ok(err)
	copy(data, "XXXXXXXXX")
	staged, err := b.Stage(f.Context())
	f.ok(err)
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	for i := range staged.Objects {
		clear(staged.Objects[i].Data)
	}
	for range 2 {
		got, err := f.store.Objects().Get(f.Context(), name("an object"))
		f.ok(err)
		f.same("the object", string(got), "an object")
		clear(got)
	}
}

// noise is text that hardly compresses, the same every time.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b strings.Builder
	b.Grow(n + 64)
	for h := name("noise"); b.Len() < n; h = segno.HashOf(h[:]) {
		for _, x := range h {
			b.WriteByte(letters[x%64])
		}
	}
	return b.String()[:n]
}

func everyField(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Staged = f.stage(tree("data"), "data")
	c.Checkpoint = full(tree("data"), "data")
	f.commit(c)
	want := *full(tree("data"), "data")
	want.ID, want.Thread, want.Parent, want.Seq = c.ID, c.Thread, c.Parent, 2
	f.same("listed", f.list(segno.CheckpointQuery{Limit: 1})[0], want)
	f.same("loaded", *f.load(c.ID)[1].Checkpoint, want)
	if got := f.list(segno.CheckpointQuery{Limit: 1})[0].Time; !got.Equal(want.Time) || got.Nanosecond() != want.Time.Nanosecond() {
		f.Fatalf("the time is %v instead of %v", got, want.Time)
	}
}

func bodies(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Entries = nil
	for _, body := range []string{"", `null`, `9007199254740993`, `123456789012345678901234567890`, `-0`, `1e400`, `"\u0000"`, `"\ud800"`, `"<&>\u2028"`, "\"\u2028\"",
		` { "b" : 1 , "a":[ ] ,"a": {} } `, `{"unknown":{"kept":[1.0,2.50]}}`, `""`, "\n[]\n"} {
		c.Entries = append(c.Entries, segno.Entry{Kind: segno.EntryResult, Turn: 1 << 40, Session: "s", Time: epoch, ID: "call\x00\xff", Name: "Ba\xffsh", Body: json.RawMessage(body)})
	}
	c.Entries[0].Body = nil
	c.Entries = append(c.Entries, segno.Entry{})
	f.commit(c)
	f.same("the entries", f.load(c.ID)[1].Entries, c.Entries)
}

func aBodyThatIsNoJSON(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Entries[0].Body = []byte(`{"half":`)
	_, err := f.store.Commit(f.Context(), c)
	f.kind(err, segno.KindInvalid)
	f.same("the head", f.head(head.Thread), head)
}

func tenMegabytes(f *fixture) {
	head := f.thread()
	c := f.next(head)
	body, err := json.Marshal(noise(10 << 20))
	f.ok(err)
	c.Entries[0].Body = body
	f.commit(c)
	if !bytes.Equal(f.load(c.ID)[1].Entries[0].Body, body) {
		f.Fatal("it came back different")
	}
}

func manyEntries(f *fixture) {
	head := f.thread()
	c := f.next(head)
	for i := range 3000 {
		c.Entries = append(c.Entries, segno.Entry{Kind: segno.EntryNote, Turn: i, Body: json.RawMessage(`{"i":1}`)})
	}
	f.commit(c)
	f.same("the entries", f.load(c.ID)[1].Entries, c.Entries)
}

func moments(f *fixture) {
	head := f.thread()
	for _, when := range []time.Time{{}, epoch.In(time.FixedZone("", 5*3600+1800)), epoch.Local(), time.Unix(0, 0), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)} {
		c := f.next(head)
		c.Checkpoint.Time, c.Entries[0].Time = when, when
		head = f.commit(c)
		got := f.load(c.ID)
		n := got[len(got)-1]
		if !n.Checkpoint.Time.Equal(when) || !n.Entries[0].Time.Equal(when) || n.Checkpoint.Time.IsZero() != when.IsZero() {
			f.Fatalf("%v came back as %v and %v", when, n.Checkpoint.Time, n.Entries[0].Time)
		}
		if _, a := n.Checkpoint.Time.Zone(); !when.IsZero() {
			if _, b := when.Zone(); a != b {
				f.Fatalf("%v came back in another zone: %v", when, n.Checkpoint.Time)
			}
		}
	}
}
