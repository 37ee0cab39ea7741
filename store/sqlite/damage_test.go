package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func checkErrors(t *testing.T, s *Store) (all []error) {
	t.Helper()
	done, err := s.Check(t.Context(), segno.CheckPolicy{}, func(err error) bool {
		all = append(all, err)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if done.Damaged != len(all) {
		t.Errorf("%d damaged and %d reports", done.Damaged, len(all))
	}
	for _, err := range all {
		wantKind(t, err, segno.KindCorrupt)
	}
	return all
}

// TestDamage damages one record at a time. A read returns KindCorrupt, never KindNotFound, and Check reports
// the damage.
func TestDamage(t *testing.T) {
	readLine := func(t *testing.T, s *Store) error {
		_, err := s.Load(t.Context(), "one", segno.Window{Entries: true})
		return err
	}
	readObject := func(data string) func(t *testing.T, s *Store) error {
		return func(t *testing.T, s *Store) error {
			_, err := s.Objects().Get(t.Context(), segno.HashOf([]byte(data)))
			return err
		}
	}
	for name, x := range map[string]struct {
		query string
		read  func(t *testing.T, s *Store) error
	}{
		"a checkpoint's encoding": {`UPDATE commits SET checkpoint = x'09' || substr(checkpoint, 2) WHERE id = 'one'`, readLine},
		"a checkpoint cut short": {`UPDATE commits SET checkpoint = substr(checkpoint, 1, length(checkpoint) - 3)
			WHERE id = 'one'`, readLine},
		"a checkpoint's byte": {`UPDATE commits SET checkpoint = substr(checkpoint, 1, 24) || x'2a' || substr(checkpoint, 26)
			WHERE id = 'one'`, readLine},
		"a byte of entries": {`UPDATE commits SET entries = substr(entries, 1, 24) || x'2a' || substr(entries, 26)
			WHERE id = 'one'`, readLine},
		"a checkpoint of noughts":      {`UPDATE commits SET checkpoint = zeroblob(length(checkpoint)) WHERE id = 'one'`, readLine},
		"a checkpoint all but cut off": {`UPDATE commits SET checkpoint = substr(checkpoint, 1, 2) WHERE id = 'one'`, readLine},
		"a checkpoint that is gone, without entries": {`UPDATE commits SET checkpoint = NULL WHERE id = 'one'`, func(t *testing.T,
			s *Store) error {
			_, err := s.Load(t.Context(), "one", segno.Window{})
			return err
		}},
		"a checkpoint that is gone": {`UPDATE commits SET checkpoint = NULL WHERE id = 'one'`, readLine},
		"entries that are gone":     {`UPDATE commits SET entries = NULL WHERE id = 'one'`, readLine},
		"entries that are emptied":  {`UPDATE commits SET entries = x'' WHERE id = 'one'`, readLine},
		"a beginning cut off":       {`UPDATE commits SET line = n, depth = 0 WHERE id = 'one'`, readLine},
		"a beginning that is gone":  {`DELETE FROM commits WHERE id = 'base'`, readLine},
		"an empty checkpoint":       {`UPDATE commits SET checkpoint = x'' WHERE id = 'one'`, nil},
		"entries":                   {`UPDATE commits SET entries = substr(entries, 1, 20) WHERE id = 'one'`, readLine},
		"a parent":                  {`UPDATE commits SET parent = 99, line = n WHERE id = 'one'`, nil},
		"a depth":                   {`UPDATE commits SET depth = 7 WHERE id = 'one'`, nil},
		"a link": {`UPDATE links SET record = x'0505'`, func(t *testing.T, s *Store) error {
			_,
				err := s.Head(t.Context(), "thread")
			return err
		}},
		"a head": {`UPDATE threads SET head = 99`, nil},
		"a thread": {`UPDATE threads SET record = x'ff'`, func(t *testing.T, s *Store) error {
			for _, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
				return err
			}
			return nil
		}},
		"a thread's flag": {`UPDATE threads SET hidden = 'x'`, func(t *testing.T, s *Store) error {
			_, err := s.Head(t.Context(), "thread")
			return err
		}},
		"a commit's number":        {`UPDATE commits SET seq = 'x' WHERE id = 'one'`, readLine},
		"an object's name":         {`UPDATE objects SET name = x'00'`, readObject("small")},
		"a small object's bytes":   {`UPDATE small SET data = x'00' || 'smalx'`, readObject("small")},
		"a small object's zstd":    {`UPDATE small SET data = x'01' || 'small'`, readObject("small")},
		"a small object's absence": {`DELETE FROM small`, readObject("small")},
		"an object's size":         {`UPDATE objects SET size = size + 1`, readObject("small")},
		"an object's row":          {`DELETE FROM objects`, nil},
		"an operation":             {`UPDATE operations SET record = x'0505'`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			seedDamage(t, dir)
			raw(t, filepath.Join(dir, databaseName), x.query)
			s := openIn(t, dir, Options{})
			defer s.Close()
			if x.read != nil {
				wantKind(t, x.read(t, s), segno.KindCorrupt)
			}
			if len(checkErrors(t, s)) == 0 {
				t.Fatal("check found nothing")
			}
		})
	}
}

// seedDamage creates a store with one record of each kind.
func seedDamage(t *testing.T, dir string) {
	t.Helper()
	head := seed(t, dir)
	s := openIn(t, dir, Options{})
	defer s.Close()
	b := s.Objects().Batch()
	name, err := b.Put(t.Context(), []byte("small"))
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(t.Context(), segno.Commit{ID: "one", Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
		Entries: []segno.Entry{step(testRand(1), 1)},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: strings.Repeat("a prompt ", 20),
			State: &segno.Document{Type: "x", Data: name}},
		Link:      &segno.Link{Agent: "claude", Session: "s"},
		Operation: &segno.Operation{ID: "op", Workspace: "w", Thread: "thread"}})
	if err != nil {
		t.Fatal(err)
	}
	if all := checkErrors(t, s); len(all) > 0 {
		t.Fatal(all)
	}
}

// TestPackDamage damages, cuts and removes a pack. Reading its objects must return KindCorrupt.
func TestPackDamage(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, file string){
		"a byte of a record": func(t *testing.T, file string) {
			data := readFile(t, file)
			data[1<<20] ^= 1
			writeFile(t, file, data)
		},
		"a byte of the index": func(t *testing.T, file string) {
			data := readFile(t, file)
			data[len(data)-packTail-3] ^= 1
			writeFile(t, file, data)
		},
		"cut short": func(t *testing.T, file string) { writeFile(t, file, readFile(t, file)[:1<<20]) },
		"empty":     func(t *testing.T, file string) { writeFile(t, file, nil) },
		"gone": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openIn(t, dir, Options{})
			names := seedPack(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
			if err != nil || len(packs) != 1 {
				t.Fatal(packs, err)
			}
			damage(t, packs[0])
			s = openIn(t, dir, Options{})
			defer s.Close()
			if _, err := s.Objects().Get(t.Context(), names[2]); name != "a byte of the index" {
				wantKind(t, err, segno.KindCorrupt)
			}
			if len(checkErrors(t, s)) == 0 {
				t.Fatal("check found nothing")
			}
			for _, name := range names[:2] {
				if _, err := s.Objects().Get(t.Context(), name); err != nil {
					t.Fatalf("another object: %v", err)
				}
			}
		})
	}
}

// TestStagedPackDamage verifies that a commit fails if its pack differs from the staged one.
func TestStagedPackDamage(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	s := openIn(t, dir, Options{})
	defer s.Close()
	stage := func() (segno.Staged, string) {
		b := s.Objects().Batch()
		for i := range 2 {
			if _, err := b.Put(t.Context(), bulk(testRand(uint64(i)))); err != nil {
				t.Fatal(err)
			}
		}
		staged, err := b.Stage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return staged, filepath.Join(dir, "packs", staged.Packs[0]+packSuffix)
	}
	for i, x := range []struct {
		damage func(file string)
		want   segno.Kind
	}{
		{func(file string) { writeFile(t, file, readFile(t, file)[:1<<20]) }, segno.KindCorrupt},
		{func(file string) { _ = os.Remove(file) }, segno.KindNotFound},
	} {
		staged, file := stage()
		x.damage(file)
		_, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(fmt.Sprint(i)), Thread: "thread", Parent: head.Head,
			Expect: head.Head, Staged: staged,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn}})
		wantKind(t, err, x.want)
	}
	for _, name := range []string{"../segno.db", "", ".", "..", "/etc/passwd", "a/b"} {
		_, err := s.Commit(t.Context(), segno.Commit{ID: "hostile", Thread: "thread", Expect: head.Head,
			Staged: segno.Staged{Packs: []string{name}}})
		wantKind(t, err, segno.KindInvalid)
	}
	checkClean(t, s)
}

// TestCheckGoesOn damages a page of the threads, and then one of the objects. A check must report both.
func TestCheckGoesOn(t *testing.T) {
	dir := t.TempDir()
	seedDamage(t, dir)
	file := filepath.Join(dir, databaseName)
	raw(t, file, `UPDATE small SET data = x'01' || 'small'`)
	const threads = 2 // the table that was created first
	data := readFile(t, file)
	data[threads*pageSize-100] ^= 1
	writeFile(t, file, data)
	s := openIn(t, dir, Options{})
	defer s.Close()
	all := fmt.Sprint(checkErrors(t, s))
	for _, want := range []string{"page 2", "check threads: " + databaseName, segno.HashOf([]byte("small")).String()} {
		if !strings.Contains(all, want) {
			t.Errorf("check found %s, and not %q", all, want)
		}
	}
}

// TestCheckStops verifies that Check ends when report returns false.
func TestCheckStops(t *testing.T) {
	dir := t.TempDir()
	seedDamage(t, dir)
	raw(t, filepath.Join(dir, databaseName), `UPDATE commits SET checkpoint = x'09'; DELETE FROM objects`)
	s := openIn(t, dir, Options{})
	defer s.Close()
	seen := 0
	done, err := s.Check(t.Context(), segno.CheckPolicy{}, func(error) bool { seen++; return false })
	if err != nil || seen != 1 || done.Damaged != 1 {
		t.Fatalf("%d reports, %d damaged, %v", seen, done.Damaged, err)
	}
}
