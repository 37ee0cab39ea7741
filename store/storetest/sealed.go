package storetest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

// Place is where one store can be kept.
type Place struct {
	// Open opens the store there, and makes it if it is not there; key is nil for
	// none. Its errors are what the store's user gets.
	Open func(t *testing.T, key []byte) (segno.Store, error)
	// Dump is all that is kept there, names and contents, as whoever has no key can
	// read it. No store is open then.
	Dump func(t *testing.T) []byte
}

// TestSealed holds a kind of store that seals what it keeps to the clauses about that.
// place returns an empty place.
func TestSealed(t *testing.T, place func(t *testing.T) Place) {
	for _, c := range sealings() {
		t.Run("sealed/"+c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.rule)
				}
			})
			c.test(&sealing{t, place(t)})
		})
	}
}

// TestSome is [Test] with every n-th clause, and with SEGNO_SOAK set with all: for one
// more way to open a kind of store that Test itself holds to all of them. With -short
// it asks every 4n-th.
func TestSome(t *testing.T, n int, open func(t *testing.T) segno.Store, o Options) {
	groups := allGroups()
	if testing.Short() {
		n *= 4
	}
	if !soak() {
		i := 0
		for g := range groups {
			groups[g].clauses = slices.DeleteFunc(groups[g].clauses, func(clause) bool { i++; return i%n != 0 })
		}
	}
	run(t, groups, func(t *testing.T) *fixture { return onto(t, open(t), o) })
}

// SealedKey is the key that stores under test are sealed with.
func SealedKey() []byte { return sealedKey(1) }

func sealedKey(n byte) []byte { return bytes.Repeat([]byte{n, 0x5e, 0xa1, 0xed}, 8) }

// sealing is a place under test.
type sealing struct {
	*testing.T
	Place
}

type sealedClause struct {
	name string
	rule string
	test func(s *sealing)
}

func sealings() []sealedClause {
	return []sealedClause{
		{"no plaintext", "nothing that a user wrote can be read anywhere in what a sealed store keeps", noPlaintext},
		{"nothing to guess", "what a sealed store keeps does not tell whether it holds a known file, session, path or value", nothingToGuess},
		{"what was kept comes back", "what was sealed is read again by the next opening with the key", whatWasSealedComesBack},
		{"another key", "a store is refused with a key that is not its own, and loses nothing", anotherKey},
		{"no key", "a sealed store is refused without a key, and takes nothing in plain", noKey},
		{"a key for an unsealed store", "a store that was made without a key is refused with one", aKeyForAnUnsealedStore},
		{"the length of a key", "a key has exactly 32 bytes; an empty one is not none", theLengthOfAKey},
		{"opened by many at once", "of many that make a sealed store at once all have the same", openedByManyAtOnce},
		{"one of two keys", "of two that make a store with different keys at once one is refused", oneOfTwoKeys},
		{"collected and checked", "a sealed store can be collected and checked like another", collectedAndChecked},
	}
}

// with opens the store, which must work, for f.
func (s *sealing) with(key []byte, do func(f *fixture)) {
	s.Helper()
	store, err := s.Open(s.T, key)
	if err != nil {
		s.Fatal(err)
	}
	f := onto(s.T, store, Options{})
	defer f.close()
	do(f)
}

// refused wants opening with a key to be refused, in one line that says what to do and
// nothing of a key.
func (s *sealing) refused(key []byte, want segno.Kind) {
	s.Helper()
	store, err := s.Open(s.T, key)
	if err == nil {
		store.Close()
		s.Fatalf("it was opened; want an error of kind %q", want)
	}
	if segno.KindOf(err) != want || segno.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
		s.Fatalf("%v (kind %q, hint %q); want one line of kind %q and a hint", err, segno.KindOf(err), segno.HintOf(err), want)
	}
	said := []byte(fmt.Sprintf("%v %#v", err, err))
	for _, k := range [][]byte{key, sealedKey(1), sealedKey(2)} {
		if len(k) >= 8 && (bytes.Contains(said, k[:8]) || bytes.Contains(said, []byte(hex.EncodeToString(k[:8])))) {
			s.Fatalf("the error shows the key: %s", said)
		}
	}
}

// marker is what must not be found: it does not compress, and no format has it by
// chance.
const marker = "Zx9Qv7Kp2Wm4Rt8Yb"

// tell puts the marker into everything that can be told to a store.
func tell(f *fixture) {
	f.Helper()
	m := func(what string) string { return marker + " in " + what }
	create := f.base("thread", "")
	create.ID = "base"
	create.Create.Title, create.Create.Agent, create.Create.Name = m("title"), m("agent"), m("name")
	create.Create.Workspace, create.Create.ParentThread = "w", "whole"
	head := f.commit(create)
	c := f.next(head)
	c.ID = "turn"
	bulk := m("an object ") + noise(1<<20)
	c.Staged = f.stage(m("a small object"), tree(m("a small object")), bulk)
	c.Needs = []segno.Hash{name(bulk)}
	c.Checkpoint = marked(m, name(tree(m("a small object"))), name(m("a small object")))
	c.Checkpoint.Turn = 1
	body, err := json.Marshal(m("body"))
	f.ok(err)
	c.Entries = []segno.Entry{{Kind: segno.EntryIntent, Turn: 1, Session: segno.SessionID(m("session")), Time: epoch, ID: m("id"), Name: m("tool"), Body: body},
		{Kind: segno.EntryState, Turn: 1, Time: epoch, Name: m("key of a value"), Body: body}}
	c.Link = markedLink(m)
	head = f.commit(c)
	c = f.next(head)
	c.ID = "long"
	if body, err = json.Marshal(m("long body") + noise(1<<20)); err != nil {
		f.Fatal(err)
	}
	c.Entries[0].Body, c.Checkpoint.Prompt = body, m("prompt")
	c.Link = markedLink(m)
	c.Link.Session, c.Link.Note = segno.SessionID(m("next session")), m("next note")
	c.Pin = &segno.Pin{Checkpoint: "turn", Name: m("pin")}
	if _, ok := f.store.(segno.Workspaces); ok {
		c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: "thread", By: "turn", Time: epoch, Snapshot: marked(m, segno.Hash{}, segno.Hash{}).Workspace}
		c.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: "thread", Verb: segno.VerbPin, Args: m("args"), Time: epoch, Pin: c.Pin, Unpinned: m("unpinned"),
			Before: segno.Pointers{Head: "turn", Session: segno.SessionID(m("session"))}}
	}
	f.commit(c)
	if w, ok := f.store.(segno.Workspaces); ok {
		f.ok(w.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: "w", Path: "/home/" + m("path"), Device: device, Inode: inode, Created: epoch, Moved: []string{m("moved")}}))
	}
	if l, ok := f.store.(segno.Leaser); ok {
		_, err := l.Acquire(f.Context(), segno.Lease{Thread: "thread", Owner: m("owner"), Expires: f.now().AddDate(1, 0, 0)})
		f.ok(err)
	}
}

func marked(m func(string) string, tree, data segno.Hash) *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Time: epoch, Agent: m("agent"), Prompt: m("prompt"), Label: m("label"), Key: segno.TurnKey(m("key")),
		Meta: map[string]string{m("meta key"): m("meta value")},
		Session: &segno.Position{Agent: m("agent"), Session: segno.SessionID(m("session")), Dir: m("dir"), Path: m("path"), Leaf: m("leaf"),
			Digest: []byte(m("digest")), Version: m("version")},
		Workspace: &segno.Snapshot{Workspace: "w", Root: m("root"), Tree: tree, Unread: []string{m("unread")},
			Git: &segno.Git{Head: m("git head"), Branch: m("branch"), Operation: m("git operation")}},
		State: &segno.Document{Type: m("type"), Data: data}, Members: map[string]segno.CommitID{m("member"): "base"}}
}

func markedLink(m func(string) string) *segno.Link {
	return &segno.Link{Agent: m("agent"), Session: segno.SessionID(m("session")), Dir: m("dir"), Path: m("link path"), Start: epoch, Reason: m("reason"),
		Fidelity: segno.Fidelity(m("fidelity")), Note: m("note"), Position: &segno.Position{Path: m("position")}}
}

// told is all that was told, read back.
func told(f *fixture) string {
	f.Helper()
	var b strings.Builder
	say := func(what string, x any) { fmt.Fprintf(&b, "%s: %+v\n", what, x) }
	for _, n := range f.load("long") {
		text, err := json.Marshal(n)
		f.ok(err)
		say("node", string(text))
	}
	head := f.head("thread")
	say("head", fmt.Sprintf("%v %v %v %v %+v", head.Head, head.Tip, head.Seq, head.Turn, head.Link.Note))
	for t, err := range f.store.Threads(f.Context(), segno.ThreadQuery{Session: segno.SessionID(marker + " in session"), ParentThread: "whole", Workspace: "w"}) {
		f.ok(err)
		say("thread", fmt.Sprintf("%v %q %q %q", t.ID, t.Title, t.Agent, t.Name))
	}
	pos := marked(func(s string) string { return marker + " in " + s }, segno.Hash{}, segno.Hash{})
	for _, q := range []segno.CheckpointQuery{{Pinned: true}, {Session: pos.Session.Session}, {Leaf: pos.Session.Leaf}, {Key: pos.Key}, {Meta: pos.Meta}, {Workspace: "w"}} {
		for _, c := range f.list(q) {
			say("found", fmt.Sprintf("%s %q", c.ID, c.Label))
		}
	}
	for _, data := range []string{marker + " in a small object", tree(marker + " in a small object"), marker + " in an object " + noise(1<<20)} {
		got, err := f.store.Objects().Get(f.Context(), name(data))
		f.ok(err)
		if string(got) != data {
			f.Fatalf("an object of %d bytes came back as %d others", len(data), len(got))
		}
		say("object", len(got))
	}
	if chains, ok := f.store.(segno.Chains); ok {
		for l, err := range chains.Chain(f.Context(), "thread") {
			f.ok(err)
			say("link", l.Session)
		}
	}
	if w, ok := f.store.(segno.Workspaces); ok {
		for r, err := range w.FindWorkspaces(f.Context(), []string{"/home/" + marker + " in path", "/home"}, 0, 0) {
			f.ok(err)
			say("workspace", fmt.Sprintf("%v %q %q %q", r.ID, r.Path, r.Moved, r.State.Snapshot.Root))
		}
		for r, err := range w.FindWorkspaces(f.Context(), nil, 3, 4) {
			f.ok(err)
			say("by inode", r.ID)
		}
		for o, err := range w.Operations(f.Context(), "w") {
			f.ok(err)
			say("operation", fmt.Sprintf("%v %q %q %q", o.ID, o.Args, o.Pin.Name, o.Unpinned))
		}
	}
	if l, ok := f.store.(segno.Leaser); ok {
		held, err := l.LeaseOf(f.Context(), "thread")
		f.ok(err)
		say("lease", held.Owner)
	}
	return b.String()
}

// device and inode are numbers that nobody takes for others.
const device, inode = 0x6465766963652d31, 0x696e6f64652d3939

// showsNumber reports whether a dump has a number in it: its eight bytes from either
// end, or its digits.
func showsNumber(dump []byte, n uint64) bool {
	little, big := binary.LittleEndian.AppendUint64(nil, n), binary.BigEndian.AppendUint64(nil, n)
	return shows(dump, little) || shows(dump, big) || bytes.Contains(dump, strconv.AppendInt(nil, int64(n), 10))
}

// shows reports whether a dump has data in it, as it is or in hexadecimal digits.
func shows(dump, data []byte) bool {
	digits := []byte(hex.EncodeToString(data))
	return bytes.Contains(dump, data) || bytes.Contains(dump, digits) || bytes.Contains(dump, bytes.ToUpper(digits))
}

func noPlaintext(s *sealing) {
	s.with(SealedKey(), func(f *fixture) { tell(f) })
	dump := s.Dump(s.T)
	if len(dump) < 1<<20 {
		s.Fatalf("the dump has only %d bytes", len(dump))
	}
	for _, secret := range []string{marker, marker[1:12], noise(64)[8:40], "in digest", "in an object"} {
		if shows(dump, []byte(secret)) {
			s.Errorf("%q can be read", secret)
		}
	}
	for _, key := range [][]byte{SealedKey(), SealedKey()[:8]} {
		if shows(dump, key) {
			s.Error("the key can be read")
		}
	}
}

func nothingToGuess(s *sealing) {
	var digest segno.Hash
	s.with(SealedKey(), func(f *fixture) {
		tell(f)
		c := f.next(f.head("thread"))
		var err error
		digest, err = c.Digest()
		f.ok(err)
		f.commit(c)
	})
	dump := s.Dump(s.T)
	guess := func(what string, h segno.Hash) {
		if n := binary.LittleEndian.Uint64(h[:]); showsNumber(dump, n) {
			s.Errorf("the hash of %s can be read", what)
		}
	}
	guess("a commit", digest)
	if showsNumber(dump, device) || showsNumber(dump, inode) {
		s.Error("the device or the inode of a workspace can be read")
	}
	for _, known := range []string{marker + " in a small object", tree(marker + " in a small object"), marker + " in an object " + noise(1<<20),
		marker + " in session", marker + " in next session", "/home/" + marker + " in path"} {
		guess(fmt.Sprintf("%.60q", known), name(known))
	}
	for field, value := range map[string]string{"leaf": marker + " in leaf", "key": marker + " in key", "session": marker + " in session",
		"meta": marker + " in meta key\x00" + marker + " in meta value"} {
		guess("the term of "+field, name(field+"\x00"+value))
	}
}

func whatWasSealedComesBack(s *sealing) {
	var whole string
	s.with(SealedKey(), func(f *fixture) {
		tell(f)
		whole = told(f)
	})
	if strings.Count(whole, marker) < 20 {
		s.Fatalf("it says only %.2000s", whole)
	}
	s.with(SealedKey(), func(f *fixture) {
		f.same("after the store was opened again, what it says", told(f), whole)
		c := f.next(f.head("thread"))
		head := f.commit(c)
		f.same("the result of the same commit again", f.commit(c), head)
	})
}

// stays wants the store to say what it said once refused openings are over.
func (s *sealing) stays(key []byte, refused func()) {
	s.Helper()
	var whole string
	s.with(key, func(f *fixture) {
		tell(f)
		whole = told(f)
	})
	refused()
	s.with(key, func(f *fixture) { f.same("after a refusal what it says", told(f), whole) })
}

func anotherKey(s *sealing) {
	s.stays(SealedKey(), func() { s.refused(sealedKey(2), segno.KindRefused) })
}

func noKey(s *sealing) {
	s.stays(SealedKey(), func() { s.refused(nil, segno.KindRefused) })
}

func aKeyForAnUnsealedStore(s *sealing) {
	s.stays(nil, func() { s.refused(SealedKey(), segno.KindRefused) })
	dump, object := s.Dump(s.T), name(marker+" in a small object")
	if !shows(dump, []byte(marker)) || !shows(dump, object[:8]) {
		s.Fatal("the marker or a hash cannot be found where nothing is sealed: the dump does not show what is kept")
	}
}

func theLengthOfAKey(s *sealing) {
	for _, n := range []int{0, 1, 16, 31, 33, 64} {
		s.refused(bytes.Repeat([]byte{1}, n), segno.KindInvalid)
	}
}

// race opens the store with each key at once.
func (s *sealing) race(keys ...[]byte) (stores []segno.Store, errs []error) {
	stores, errs = make([]segno.Store, len(keys)), make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() { stores[i], errs[i] = s.Open(s.T, key) })
	}
	group.Wait()
	for _, store := range stores {
		if store != nil {
			s.Cleanup(func() { store.Close() })
		}
	}
	return stores, errs
}

func openedByManyAtOnce(s *sealing) {
	stores, errs := s.race(SealedKey(), SealedKey(), SealedKey(), SealedKey())
	var head segno.Head
	for i, store := range stores {
		if errs[i] != nil {
			s.Fatal(errs[i])
		}
		f := onto(s.T, store, Options{})
		f.n = 100 * i
		if i == 0 {
			head = f.thread()
		}
		head = f.turns(head, 1)
		f.same("how long the line is", len(f.load(head.Head)), i+2)
	}
}

func oneOfTwoKeys(s *sealing) {
	stores, errs := s.race(SealedKey(), sealedKey(2))
	for i, err := range errs {
		if err != nil && segno.KindOf(err) != segno.KindRefused {
			s.Fatal(err)
		}
		if err == nil && errs[1-i] == nil {
			s.Fatal("both were opened")
		}
		if err == nil {
			onto(s.T, stores[i], Options{}).thread()
		}
	}
	if errs[0] != nil && errs[1] != nil {
		s.Fatal(errs)
	}
}

func collectedAndChecked(s *sealing) {
	s.with(SealedKey(), func(f *fixture) {
		tell(f)
		whole := told(f)
		f.sound()
		c, ok := f.store.(segno.Collector)
		if !ok {
			return
		}
		done, err := c.Collect(f.Context(), segno.CollectPolicy{Trace: trace})
		f.ok(err)
		if done.Checkpoints != 0 || done.Objects != 0 || done.Kept != 3 {
			f.Fatalf("what everything reaches was collected: %+v", done)
		}
		f.same("after a collection what it says", told(f), whole)
		f.sound()
	})
}
