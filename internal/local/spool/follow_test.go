package spool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// list is a [Fold] that keeps the entries.
type list struct{ entries []segno.Entry }

func (l *list) Add(e ...segno.Entry) { l.entries = append(l.entries, e...) }

// spoolState is what a spool contains.
type spoolState struct {
	Open    []timeline.OpenTurn
	Entries [][]string
}

func stateOf(t *testing.T, d *Dir) (s spoolState) {
	t.Helper()
	open, err := d.Turns(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range open {
		entries, _, err := d.Entries(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		s.Open, s.Entries = append(s.Open, o), append(s.Entries, ids(entries))
	}
	return s
}

func (f *followRig) state(ctx context.Context) (s spoolState) {
	f.t.Helper()
	turns, err := f.follower.Turns(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, o := range turns {
		s.Open, s.Entries = append(s.Open, o.Open), append(s.Entries, ids(o.Notes.entries))
	}
	return s
}

type followRig struct {
	t        *testing.T
	dir      *Dir
	follower *Follower[*list]
	random   *rand.Rand
	made     int
}

// change changes the spool as hooks do, and as a crash does.
func (f *followRig) change(ctx context.Context) error {
	key := segno.TurnKey(fmt.Sprint("k", f.random.IntN(3)))
	f.made++
	raw := func(text string) error {
		file, err := os.OpenFile(f.dir.turnFile(key), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err == nil {
			err = file.Close()
		}
		return err
	}
	switch f.random.IntN(12) {
	case 0:
		return f.dir.DeleteTurn(ctx, key)
	case 1, 2:
		o := turn(string(key))
		o.Prompt = fmt.Sprint("prompt ", f.made)
		return f.dir.SaveTurn(ctx, o)
	case 3:
		return raw(`{"entry":{"kind":"int`) // torn
	case 4:
		return raw(`{"saved":{"torn`)
	case 5:
		return raw("\nno line\n\n")
	case 6:
		return f.dir.AppendSaved(ctx, key, timeline.SavedCall{})
	case 7: // another process rewrites the file, as removeIfSealed does
		data, err := os.ReadFile(f.dir.turnFile(key))
		if err != nil || f.made%2 == 0 {
			return nil
		}
		return vfs.Replace(vfs.OS, f.dir.turnFile(key), data, 0o600)
	}
	return f.dir.AppendEntry(ctx, key, entry(fmt.Sprint("e", f.made)))
}

// TestAFollowerReadsWhatATurnHas compares a follower with [Dir.Turns] and [Dir.Entries] after random changes.
func TestAFollowerReadsWhatATurnHas(t *testing.T) {
	for _, seed := range soak.Seeds(t, 5, 300) {
		d := New(t.TempDir(), vfs.OS)
		f := &followRig{t: t, dir: d, follower: NewFollower(d, func() *list { return &list{} }), random: rand.New(rand.NewPCG(seed, 1))}
		if err := d.SaveTurn(t.Context(), turn("k0")); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			for range f.random.IntN(4) {
				if err := f.change(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(stateOf(t, d), f.state(t.Context())); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	}
}

// countingSealer counts the lines that are opened.
type countingSealer struct{ opened int }

func (*countingSealer) Seal(plain []byte, _ ...string) []byte { return plain }

func (c *countingSealer) Open(sealed []byte, _ ...string) ([]byte, error) {
	c.opened++
	return sealed, nil
}

// TestAFollowerDecodesALineOnce follows a turn while entries are added.
func TestAFollowerDecodesALineOnce(t *testing.T) {
	z := &countingSealer{}
	d := NewSealed(t.TempDir(), vfs.OS, func() (Sealer, error) { return z, nil })
	f := &followRig{t: t, dir: d, follower: NewFollower(d, func() *list { return &list{} })}
	if err := d.SaveTurn(t.Context(), turn("k")); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		if err := d.AppendEntry(t.Context(), "k", entry(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if s := f.state(t.Context()); len(s.Entries) != 1 || len(s.Entries[0]) != n+1 {
				t.Fatalf("after %d entries: %v", n+1, s.Entries)
			}
		}
	}
	if z.opened != 101 {
		t.Errorf("101 lines were decoded %d times", z.opened)
	}
}
