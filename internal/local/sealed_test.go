package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// keyFile writes a new key file of age and returns its path.
func (g *fixture) keyFile(name string) string {
	g.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		g.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(g.project), name)
	if err := os.WriteFile(path, []byte("# a comment\n"+id.String()+"\n"), 0o600); err != nil {
		g.Fatal(err)
	}
	return path
}

func (g *fixture) seal(key string) local.Conversion {
	g.Helper()
	done, err := g.place.SealStore(g.Context(), local.SealOptions{KeyFile: key})
	if err != nil {
		g.Fatal(err)
	}
	return done
}

// records returns all records of the store: threads, lines with entries, chains, operations and workspaces.
func (g *fixture) records() string {
	g.Helper()
	var out strings.Builder
	add := func(v any, err error) {
		g.Helper()
		data, jsonErr := json.Marshal(v)
		if err != nil || jsonErr != nil {
			g.Fatal(err, jsonErr)
		}
		fmt.Fprintf(&out, "%s\n", data)
	}
	s, err := g.place.Open(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	defer s.Close()
	for t, err := range s.Threads(g.Context(), segno.ThreadQuery{}) {
		add(t, err)
		head, err := s.Head(g.Context(), t.ID)
		add(head, err)
		for c, err := range s.Checkpoints(g.Context(), segno.CheckpointQuery{Thread: t.ID}) {
			add(c, err)
			line, err := s.Load(g.Context(), c.ID, segno.Window{Entries: true})
			add(line, err)
		}
		for l, err := range s.Chain(g.Context(), t.ID) {
			add(l, err)
		}
	}
	for w, err := range s.FindWorkspaces(g.Context(), nil, 0, 0) {
		add(w, err)
		for o, err := range s.Operations(g.Context(), w.ID) {
			add(o, err)
		}
	}
	return out.String()
}

func (g *fixture) isSealed() bool { return spool.IsSealed(g.place.Store) }

// wantNothingConverting fails the test if files of an incomplete conversion exist.
func (g *fixture) wantNothingConverting() {
	g.Helper()
	if _, err := os.Lstat(filepath.Join(g.place.Store, "converting")); err == nil {
		g.Error("files of a conversion remain")
	}
}

// find returns the files below the store whose content or name contains one of the texts.
func (g *fixture) find(texts ...string) (found []string) {
	g.Helper()
	err := filepath.WalkDir(g.place.Store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) || strings.Contains(filepath.Base(path), text) {
				found = append(found, text+" in "+path)
			}
		}
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return found
}

// TestSealAndUnseal seals a store with history, continues to work in it, and removes the seal. Undo, redo, restore and
// fork give the same results as in a store that was never sealed.
func TestSealAndUnseal(t *testing.T) {
	g, states := threeTurns(t)
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil {
		t.Fatal(err)
	}
	before := g.records()
	key := g.keyFile("key")
	done := g.seal(key)
	if !g.isSealed() || done.Threads != 1 || done.Commits == 0 || done.Objects == 0 {
		t.Fatalf("sealed %v: %+v", g.isSealed(), done)
	}
	if after := g.records(); after != before {
		t.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
	g.checkStore()
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); err != nil || g.files() != states[3] {
		t.Fatalf("redo after the seal: %v\n%s", err, g.files())
	}
	if err := g.turn("D", func() { g.write("a", "4") }); err != nil {
		t.Fatal(err)
	}
	g.checkStore()
	before = g.records()
	if _, err := g.place.UnsealStore(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if after := g.records(); g.isSealed() || after != before {
		t.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 4}); err != nil || g.files() != states[0] {
		t.Fatalf("undo after the seal was removed: %v\n%s", err, g.files())
	}
	g.wantNothingConverting()
	g.checkStore()
}

// TestSealANewStore seals a store before anything is recorded. No file of the store ever contains a secret.
func TestSealANewStore(t *testing.T) {
	g := newFixture(t)
	if done := g.seal(g.keyFile("key")); !g.isSealed() || done.Threads != 0 || len(done.NotCovered) != 0 {
		t.Fatalf("sealed %v: %+v", g.isSealed(), done)
	}
	if err := g.turn("secretprompt", func() { g.write("secretname", "secretcontent") }); err != nil {
		t.Fatal(err)
	}
	if found := g.find("secret", g.project); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(g.project, "secretname")); err == nil {
		t.Error("undo left the file")
	}
	g.checkStore()
}

// TestSealDuringTheFirstTurn seals the store while the first turn of a project is open and its agent has ended. The
// objects of the turn's snapshot, small ones and a pack, are not in a commit yet.
func TestSealDuringTheFirstTurn(t *testing.T) {
	for _, size := range []int{10, 3 << 20} {
		g := newFixture(t)
		text := make([]byte, size)
		for i := range text {
			text[i] = byte(rand.Uint32())
		}
		g.write("large", string(text))
		if err := g.begin("A", segno.Source{Session: "session", Dir: g.project}); err != nil {
			t.Fatal(err)
		}
		g.seal(g.keyFile("key"))
		g.write("large", "small")
		if err := g.end(nil, "A"); err != nil {
			t.Fatal(err)
		}
		g.checkStore()
		if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(g.project, "large")); err != nil || !bytes.Equal(data, text) {
			t.Errorf("undo restored %d bytes, %v", len(data), err)
		}
	}
}

// TestSealedFilesAreUnreadable searches all files of a sealed store for prompts, contents and paths. The store has an
// open turn, a journal, a deferred commit and a session that was not recorded.
func TestSealedFilesAreUnreadable(t *testing.T) {
	g := newFixture(t)
	g.write("secretname/f", "secretcontent")
	turn := func(key string) {
		t.Helper()
		if err := g.turn(key, func() { g.write("secretname/f", "secretcontent "+key) }); err != nil {
			t.Fatal(err)
		}
	}
	leave := func(key string) { // the agent has ended
		t.Helper()
		if err := g.begin(key, segno.Source{Session: "secretsession", Dir: g.project}); err != nil {
			t.Fatal(err)
		}
		sp := g.place.Spool()
		e := segno.Entry{Kind: segno.EntryNote, Body: []byte(`"secretnote"`), ID: key}
		if err := sp.AppendEntry(t.Context(), segno.TurnKey(key), e); err != nil {
			t.Fatal(err)
		}
		if _, err := sp.KeepUnrecorded(spool.Unrecorded{Session: "secretsession", Dir: "/secretdir", Time: g.place.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := sp.WritePlan(t.Context(), "another workspace", []byte(`{"path":"secretplan"}`)); err != nil {
			t.Fatal(err)
		}
	}
	secrets := []string{"secret", g.project, "claude"}
	turn("secretprompt one")
	leave("secretprompt two")
	if len(g.find(secrets...)) < 4 {
		t.Fatal("the plain store contains no secrets")
	}
	key := g.keyFile("key")
	g.seal(key)
	check := func() {
		t.Helper()
		if found := g.find(secrets...); len(found) > 0 {
			t.Errorf("found %q", found)
		}
	}
	check()
	sp := g.place.Spool()
	turns, err := sp.Turns(t.Context())
	if err != nil || len(turns) != 1 || turns[0].Prompt != "secretprompt two" {
		t.Fatalf("the open turn: %+v, %v", turns, err)
	}
	entries, bad, err := sp.Entries(t.Context(), "secretprompt two")
	if err != nil || bad != 0 || len(entries) != 1 || string(entries[0].Body) != `"secretnote"` {
		t.Fatalf("its entries: %+v, %d, %v", entries, bad, err)
	}
	if plan, err := sp.ReadPlan(t.Context(), "another workspace"); err != nil || string(plan) != `{"path":"secretplan"}` {
		t.Fatalf("the journal: %s, %v", plan, err)
	}
	if all, err := sp.Unrecorded(t.Context(), time.Time{}); err != nil || len(all) != 1 || all[0].Dir != "/secretdir" {
		t.Fatalf("the sessions: %+v, %v", all, err)
	}
	if err := g.end(nil, "secretprompt two"); err != nil {
		t.Fatal(err)
	}
	turn("secretprompt three")
	leave("secretprompt four")
	if err := sp.Defer(t.Context(), []segno.Commit{{ID: "secretcommit"}}); err != nil {
		t.Fatal(err)
	}
	check()
	if waiting, err := sp.ListDeferred(t.Context()); err != nil || len(waiting) != 1 || waiting[0].ID != "secretcommit" {
		t.Fatalf("the deferred commits: %+v, %v", waiting, err)
	}
	if err := os.RemoveAll(filepath.Join(g.place.Store, "deferred")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.place.UnsealStore(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if turns, err := sp.Turns(t.Context()); err != nil || len(turns) != 1 || turns[0].Prompt != "secretprompt four" {
		t.Fatalf("the open turn after the seal was removed: %+v, %v", turns, err)
	}
	if len(g.find(secrets...)) < 4 {
		t.Error("the store without a seal contains no secrets")
	}
}

// TestSealRefuses seals stores that cannot be sealed, and opens sealed ones without their key.
func TestSealRefuses(t *testing.T) {
	g := newFixture(t)
	key := g.keyFile("key")
	seal := func() error {
		_, err := g.place.SealStore(t.Context(), local.SealOptions{KeyFile: key})
		return err
	}
	open := func() error {
		s, err := g.place.Open(t.Context())
		if err == nil {
			err = s.Close()
		}
		return err
	}
	want := func(err error, kind segno.Kind, text string) {
		t.Helper()
		if segno.KindOf(err) != kind || !strings.Contains(err.Error(), text) || segno.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v (kind %v, hint %q), want %v with %q", err, segno.KindOf(err), segno.HintOf(err), kind, text)
		}
	}
	_, err := g.place.UnsealStore(t.Context(), nil)
	want(err, segno.KindNotFound, "")
	_, err = g.place.SealStore(t.Context(), local.SealOptions{KeyFile: key + "x"})
	want(err, segno.KindInvalid, "no such file")
	if g.place.Exists() {
		t.Error("an invalid key creates a store")
	}
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	_, err = g.place.UnsealStore(t.Context(), nil)
	want(err, segno.KindRefused, "not sealed")
	_, err = g.place.SealStore(t.Context(), local.SealOptions{KeyFile: key + "x"})
	want(err, segno.KindInvalid, "no such file")
	_, err = g.place.SealStore(t.Context(), local.SealOptions{KeyFile: filepath.Join(g.place.Store, "segno.db")})
	want(err, segno.KindInvalid, "inside the store")
	_, err = g.place.SealStore(t.Context(), local.SealOptions{KeyFile: key, Recipients: []string{"me"}})
	want(err, segno.KindInvalid, "not a public key")

	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	impatient := g.place
	impatient.StoreWait = 20 * time.Millisecond
	_, err = impatient.SealStore(t.Context(), local.SealOptions{KeyFile: key})
	want(err, segno.KindBusy, "another process has the store open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open2 := timeline.OpenTurn{Key: "B", Agent: "test", Process: timeline.Process{PID: os.Getpid()}}
	if err := g.place.Spool().SaveTurn(t.Context(), open2); err != nil {
		t.Fatal(err)
	}
	want(seal(), segno.KindRefused, "a turn of test is open")
	if err := g.place.Spool().DeleteTurn(t.Context(), "B"); err != nil {
		t.Fatal(err)
	}
	g.wantNothingConverting()
	if g.isSealed() {
		t.Fatal("the store is sealed")
	}

	if err := seal(); err != nil {
		t.Fatal(err)
	}
	want(seal(), segno.KindRefused, "sealed already")
	for name, change := range map[string]func(){
		"lost":      func() { g.must(os.Remove(key)) },
		"other":     func() { g.must(os.Rename(g.keyFile("other"), key)) },
		"no key":    func() { g.must(os.WriteFile(key, []byte("hello"), 0o600)) },
		"directory": func() { g.must(os.Remove(key)); g.must(os.Mkdir(key, 0o700)) },
	} {
		g.must(os.Rename(key, key+".copy"))
		g.must(os.WriteFile(key, nil, 0o600))
		change()
		err := open()
		want(err, segno.KindRefused, key)
		if _, err := g.place.UnsealStore(t.Context(), nil); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("%s: unseal: %v", name, err)
		}
		if err := g.place.Spool().Defer(t.Context(), []segno.Commit{{ID: "x"}}); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("%s: a commit was deferred: %v", name, err)
		}
		with := g.place
		with.Identity = key + ".copy"
		if s, err := with.Open(t.Context()); err != nil {
			t.Errorf("%s: with another copy: %v", name, err)
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		g.must(os.RemoveAll(key))
		g.must(os.Rename(key+".copy", key))
	}
	g.must(os.Rename(filepath.Join(g.place.Store, spool.SealFile), key+".seal"))
	want(open(), segno.KindRefused, "is missing")
	g.must(os.WriteFile(filepath.Join(g.place.Store, spool.SealFile), []byte(`{"version":1}`), 0o600))
	want(open(), segno.KindCorrupt, "damaged")
	g.must(os.WriteFile(filepath.Join(g.place.Store, spool.SealFile), []byte(`{"version":9}`), 0o600))
	if err := open(); segno.KindOf(err) != segno.KindNewer {
		t.Error(err)
	}
	g.must(os.Rename(key+".seal", filepath.Join(g.place.Store, spool.SealFile)))
	if err := open(); err != nil {
		t.Error(err)
	}
}

func (g *fixture) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// TestSealWithSSH seals with a private key of SSH, and with a further recipient.
func TestSealWithSSH(t *testing.T) {
	g := newFixture(t)
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	ssh := filepath.Join(filepath.Dir(g.project), "id_ed25519")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spare, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.place.SealStore(t.Context(), local.SealOptions{KeyFile: ssh, Recipients: []string{spare.Recipient().String()}}); err != nil {
		t.Fatal(err)
	}
	before := g.records()
	g.must(os.WriteFile(ssh, []byte(spare.String()), 0o644))
	if after := g.records(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	s, err := g.place.Sealed()
	if err != nil || s == nil || s.KeyFile != ssh || s.Exposed {
		t.Errorf("sealed: %+v, %v", s, err)
	}
	g.must(os.Chmod(ssh, 0o644))
	if s, err := g.place.Sealed(); err != nil || !s.Exposed {
		t.Errorf("other users can read the key: %+v, %v", s, err)
	}
}

// TestEveryFailureOfAConversion fails a sample of the disk operations of seal and unseal, once and permanently. The
// store is complete in one of the two forms, and the next command leaves no files of the conversion.
func TestEveryFailureOfAConversion(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	g, _ := threeTurns(t)
	key := g.keyFile("key")
	before := g.records()
	convert := func(unseal bool, fsys vfs.FS) (err error) {
		place := g.place
		place.FS = fsys
		if unseal {
			_, err = place.UnsealStore(t.Context(), nil)
		} else {
			_, err = place.SealStore(t.Context(), local.SealOptions{KeyFile: key})
		}
		return err
	}
	for _, unseal := range []bool{false, true} {
		prepare := func() {
			if g.isSealed() != unseal {
				g.must(convert(!unseal, nil))
			}
		}
		prepare()
		complete := faultfs.FailAt(-1)
		g.must(convert(unseal, complete.Wrap(vfs.OS)))
		if g.isSealed() == unseal {
			t.Fatal("nothing was converted")
		}
		for _, n := range faultfs.Sample(t, complete.Trace()) {
			for _, forever := range []bool{false, true} {
				prepare()
				faults := faultfs.FailAt(n)
				faults.Forever = forever
				if err := convert(unseal, faults.Wrap(vfs.OS)); !faults.Fired() || err == nil {
					t.Fatalf("unseal %v, operation %d of %v: %v", unseal, n, faults.Trace(), err)
				}
				if after := g.records(); after != before {
					t.Fatalf("unseal %v, operation %d: before:\n%s\nafter:\n%s", unseal, n, before, after)
				}
				g.wantNothingConverting()
			}
		}
	}
	g.checkStore()
}

// retryWhileBusy calls f until its result is not the error that the store is busy.
func retryWhileBusy(f func() error) error {
	for {
		if err := f(); segno.KindOf(err) != segno.KindBusy {
			return err
		}
	}
}

// recordTurn records a turn as three hooks do.
func recordTurn(ctx context.Context, place local.Place, project string, key segno.TurnKey) error {
	src := segno.Source{Session: "session", Dir: project}
	hook := func(f func(*timeline.Timeline) error) error {
		return retryWhileBusy(func() error {
			return withTimelineAt(ctx, place, project, func(_ context.Context, _ *local.Store, tl *timeline.Timeline) error { return f(tl) })
		})
	}
	err := hook(func(tl *timeline.Timeline) error {
		_, err := tl.BeginTurn(ctx, timeline.Prompt{Key: key, Agent: "test", Source: src, Text: "prompt"})
		return err
	})
	if err == nil {
		err = retryWhileBusy(func() error {
			return place.Spool().AppendEntry(ctx, key, segno.Entry{Kind: segno.EntryNote, Body: []byte(`"a note"`)})
		})
	}
	if err != nil {
		return err
	}
	return hook(func(tl *timeline.Timeline) error {
		_, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: key, Agent: "test", Source: src})
		return err
	})
}

// TestConversionsBesideTurns records turns, as hooks do, while the store is sealed and unsealed. Each acknowledged turn
// is in the store.
func TestConversionsBesideTurns(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	g := newFixture(t)
	g.place.Now = time.Now
	key := g.keyFile("key")
	if err := g.turn("first", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var acknowledged atomic.Int32
	stop := make(chan struct{})
	group.Go(func() { // with more writers, a conversion might never get the lock
		place := g.place
		place.StoreWait = 20 * time.Millisecond
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := recordTurn(t.Context(), place, g.project, segno.TurnKey(fmt.Sprint(n))); err != nil {
				t.Error(err)
				return
			}
			acknowledged.Add(1)
		}
	})
	conversions := 0
	for range 100 {
		var err error
		if g.isSealed() {
			_, err = g.place.UnsealStore(t.Context(), nil)
		} else {
			_, err = g.place.SealStore(t.Context(), local.SealOptions{KeyFile: key})
		}
		if err == nil {
			conversions++
		} else if segno.KindOf(err) != segno.KindBusy {
			t.Error(err)
		}
		if conversions == 8 {
			break
		}
	}
	close(stop)
	group.Wait()
	t.Logf("%d conversions beside %d turns", conversions, acknowledged.Load())
	turns := 0
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind == segno.CheckpointTurn && c.Amends == "" && c.Prompt == "prompt" {
			turns++
		}
	}
	g.must(s.Close())
	if turns != int(acknowledged.Load()) || turns == 0 || conversions == 0 {
		t.Errorf("%d turns were acknowledged, and the store has %d", acknowledged.Load(), turns)
	}
	g.checkStore()
}
