package storetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// full returns a checkpoint with every field set.
func full(tree, data string) *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 7, Time: epoch.Add(123456789), Agent: "claude",
		Prompt: "fix\x00 the <b>&\u2028 bug\xff", Label: "a label", Step: 1 << 33, Meta: pairs{"": "", "a key\x00": "a value\xff"},
		Key: "key", Interrupted: true, Shared: true, Amends: "older", Shell: 4,
		Files: segno.Counts{Added: 1, Modified: 2, Deleted: 3, Protected: 4},
		Session: &segno.Position{Agent: "claude", Session: "s", Dir: "/dir", Path: "/p\xff", Leaf: "leaf", Offset: 1 << 60, SHA256: hash("x"),
			Digest: []byte{0, 1, 255}, Log: hash(data), Sidecars: hash(data), Version: "2.1"},
		Workspace: &segno.Snapshot{Workspace: "w", Root: "/root\xff", Tree: hash(tree), Times: hash(data), Files: 3, Bytes: 1 << 61,
			Unread: []string{"a", "b\xffc", "d\ne"}, Held: []string{"f", "g\xffh"}, World: &segno.Document{Type: "databases/1", Data: hash(data)},
			Git: &segno.Git{Head: "abc", Branch: "main", Operation: "rebase"}},
		State:   &segno.Document{Type: "todo/2", Data: hash(data)},
		World:   &segno.Document{Type: "world/1", Data: hash(data)},
		Members: map[string]segno.CommitID{"one": "m1", "two\x00": "m2"}}
}

// deepest is how deeply JSON may be nested, so that Go's decoder reads it.
const deepest = 10_000

// fullTurn returns a turn with a full checkpoint.
func (f *fixture) fullTurn(head segno.Head) segno.Commit {
	f.Helper()
	c := f.turn(head)
	c.Staged, c.Checkpoint = f.stage(tree("data"), "data"), full(tree("data"), "data")
	return c
}

// stored returns the checkpoint that the store returns for c, with every field of full.
func stored(c segno.Commit, seq int64) segno.Checkpoint {
	want := *full(tree("data"), "data")
	want.ID, want.Thread, want.Parent, want.Seq = c.ID, c.Thread, c.Parent, seq
	return want
}

// valueTests test the fields of checkpoints and entries.
var valueTests = []test{
	{"every field", "every field of a checkpoint is returned unchanged, and as a copy", testEveryField},
	{"bodies", "the body of an entry is returned byte for byte, for thousands of entries in order", func(f *fixture) {
		c := f.turn(f.newThread())
		c.Entries = []segno.Entry{{Kind: segno.EntryResult, ID: "no body"}, {}}
		for _, body := range append(unusualJSON(), ` { "b" : 1 , "a":[ ] ,"a": {} } `, "\n[]\n", `"<&>\u2028"`,
			strings.Repeat("[", deepest)+strings.Repeat("]", deepest)) {
			c.Entries = append(c.Entries, segno.Entry{Kind: segno.EntryResult, Turn: 1 << 40, Session: "s", Time: epoch,
				ID: "call\x00\xff", Name: "Ba\xffsh", Body: json.RawMessage(body)})
		}
		for i := range 3000 {
			c.Entries = append(c.Entries, segno.Entry{Kind: segno.EntryNote, Turn: i, Body: json.RawMessage(`{"i":1}`)})
		}
		f.commit(c)
		f.same("the entries", f.load(c.ID)[1].Entries, c.Entries)
	}},
	{"a body that is invalid JSON", "invalid JSON is refused", func(f *fixture) {
		head := f.newThread()
		c := f.turn(head)
		c.Entries[0].Body = []byte(`{"half":`)
		f.kind(f.commitErr(c), segno.KindInvalid)
		f.same("the head", f.head(head.Thread), head)
	}},
	{"10 MB", "a body can have ten megabytes", func(f *fixture) {
		c := f.turn(f.newThread())
		c.Entries[0].Body = []byte(`"` + noise(10<<20) + `"`)
		f.commit(c)
		if !bytes.Equal(f.load(c.ID)[1].Entries[0].Body, c.Entries[0].Body) {
			f.Fatal("the body is different")
		}
	}},
	{"times", "a time is returned as the same moment in the same zone; the zero time stays zero", func(f *fixture) {
		head := f.newThread()
		for _, when := range []time.Time{{}, epoch.In(time.FixedZone("", 5*3600+1800)), epoch.Local(), time.Unix(0, 0),
			time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)} {
			c := f.turn(head)
			c.Checkpoint.Time, c.Entries[0].Time = when, when
			head = f.commit(c)
			nodes := f.load(c.ID)
			n := nodes[len(nodes)-1]
			_, zone := n.Checkpoint.Time.Zone()
			_, want := when.Zone()
			if got := n.Checkpoint.Time; !got.Equal(when) || got.IsZero() != when.IsZero() || !when.IsZero() && zone != want {
				f.Fatalf("%v was returned as %v", when, got)
			}
			f.same("the time of an entry", n.Entries[0].Time, when)
		}
	}},
}

func testEveryField(f *fixture) {
	c := f.fullTurn(f.newThread())
	c.Entries = []segno.Entry{{Kind: segno.EntryNote, Body: json.RawMessage(`"body"`)}}
	want, entries := stored(c, 2), []segno.Entry{{Kind: segno.EntryNote, Body: json.RawMessage(`"body"`)}}
	f.commit(c)
	compare := func(when string) {
		f.Helper()
		n, listed := f.load(c.ID)[1], f.checkpoints(segno.CheckpointQuery{Limit: 1})[0]
		f.same("the loaded checkpoint "+when, *n.Checkpoint, want)
		f.same("the entries "+when, n.Entries, entries)
		f.same("the listed checkpoint "+when, listed, want)
		f.same("its nanoseconds "+when, listed.Time.Nanosecond(), want.Time.Nanosecond())
	}
	overwrite := func(cp *segno.Checkpoint) {
		const x = "overwritten"
		cp.Prompt, cp.Session.Leaf, cp.Session.Digest[0], cp.Workspace.Root, cp.Workspace.Unread[0] = x, x, 9, x, x
		cp.Workspace.Git.Head, cp.State.Type, cp.World.Type, cp.Members["one"], cp.Meta[""] = x, x, x, x, x
	}
	compare("at first")
	overwrite(c.Checkpoint)
	clear(c.Entries[0].Body)
	compare("after changing the argument of Commit")
	n := f.load(c.ID)[1]
	overwrite(n.Checkpoint)
	clear(n.Entries[0].Body)
	compare("after changing the result of Load")
	overwrite(&f.checkpoints(segno.CheckpointQuery{Limit: 1})[0])
	compare("after changing the result of Checkpoints")
}

// objectTests test batches and objects.
var objectTests = []test{
	{"round trip", "an object can have any bytes, is a copy, and cannot be read before a commit or Keep", testRoundTrip},
	{"a batch ends once", "after Stage or Close a batch refuses further objects", func(f *fixture) {
		for _, data := range []string{"small", noise(3 << 20)} {
			staged, dropped := f.store.Objects().Batch(), f.store.Objects().Batch()
			f.ok(errOf(staged.Put(f.Context(), []byte(data))))
			f.ok(errOf(dropped.Put(f.Context(), []byte("dropped"+data))))
			s := returned(staged.Stage(f.Context())).ok(f)
			f.ok(dropped.Close())
			for _, b := range []segno.Batch{staged, dropped} {
				f.kind(errOf(b.Put(f.Context(), []byte("late"))), segno.KindInvalid)
				f.kind(errOf(b.Stage(f.Context())), segno.KindInvalid)
				f.ok(b.Close())
			}
			f.ok(f.store.Objects().Keep(f.Context(), s))
			f.present(data)
			f.missing("dropped" + data)
		}
		f.same("whether an empty batch is zero", f.stage().IsZero(), true)
		f.keep()
	}},
	{"staged is data", "staged objects can be encoded as JSON and committed later; at most 1 MiB is inline beside packs", func(f *fixture) {
		c := f.turn(f.newThread())
		c.Staged = f.stage("", "small", noise(900_000), noise(3<<20))
		sum := 0
		for _, o := range c.Staged.Objects {
			sum += len(o.Data)
		}
		if len(c.Staged.Packs) > 0 && sum > 1<<20 {
			f.Fatalf("%d bytes are inline beside %d packs", sum, len(c.Staged.Packs))
		}
		data := returned(json.Marshal(c)).ok(f)
		var later segno.Commit
		f.ok(json.Unmarshal(data, &later))
		first := f.commit(later)
		f.present("", "small", noise(3<<20))
		f.same("the result of the original commit", f.commit(c), first)
	}},
	{"twice is once", "an object that the store has is not staged again; two batches may have the same object", func(f *fixture) {
		one, two := f.stage("same", noise(2<<20), "a", "a"), f.stage("same", noise(2<<20), "b")
		for _, s := range []segno.Staged{one, two, two} {
			f.ok(f.store.Objects().Keep(f.Context(), s))
		}
		var staged []segno.Hash
		for _, o := range f.stage("a", "b", "c").Objects {
			if len(o.Data) > 0 {
				staged = append(staged, o.Name)
			}
		}
		f.same("the staged objects", staged, []segno.Hash{hash("c")})
		f.present("same", noise(2<<20), "a", "b")
	}},
}

// sharedObjectTests open the store twice.
var sharedObjectTests = []test{
	{"another process commits", "an object that one process staged can be stored by another", func(f *fixture) {
		f.ok(f.secondStore().Objects().Keep(f.Context(), f.stage("small", noise(3<<20))))
		f.present("small", noise(3<<20))
	}},
}

// testRoundTrip puts each object twice, concurrently.
func testRoundTrip(f *fixture) {
	data := []string{"", "x", "\x00", strings.Repeat("a", 100_000), noise(100_000), noise(2 << 20), noise(10 << 20),
		strings.Repeat("tree\n", 1000)}
	for i := range 300 {
		data = append(data, noise(i*25)+"!")
	}
	f.missing(data...)
	b := f.store.Objects().Batch()
	defer b.Close()
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := w % 4; i < len(data); i += 4 {
				object := []byte(data[i])
				h, err := b.Put(f.Context(), object)
				if has, err2 := b.Has(f.Context(), h); err != nil || err2 != nil || !has || h != hash(data[i]) {
					f.Errorf("put: %v, %v; has: %v, %v", h, err, has, err2)
				}
				clear(object)
			}
		})
	}
	group.Wait()
	notYet := data
	if f.o.EarlyObjects {
		notYet = nil
	}
	f.missing(notYet...)
	staged := returned(b.Stage(f.Context())).ok(f)
	f.missing(notYet...)
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	for i := range staged.Objects {
		clear(staged.Objects[i].Data)
	}
	got := returned(f.store.Objects().Get(f.Context(), hash("x"))).ok(f)
	clear(got)
	f.present(data...)
}
