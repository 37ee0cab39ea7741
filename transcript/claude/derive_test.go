package claude_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// checkCutsOfCuts cuts at random turns, continues the cut, and cuts the result
// again, while the agent's files are removed and written again. The objects of every cut must
// reproduce its file, whatever they derive from.
func checkCutsOfCuts(t *testing.T, s *sessionWriter, c *claude.Transcripts, o *memoryObjects, turns []capturedTurn) {
	turn := turns[s.pick(len(turns))]
	for n := range 3 {
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("77777777-0000-4000-8000-%012d", n)), Dir: s.dir}
		checkCut(t, c, o, turn, to)
		src, err := c.Find(context.Background(), to.Session)
		if err != nil {
			t.Fatal(err)
		}
		p := captureCut(t, c, o, src, turn.at)
		if s.pick(3) == 0 { // the session is cut again before it has a turn
			turn = capturedTurn{p, turn.want}
			continue
		}
		next := &sessionWriter{path: src.Path, session: to.Session, dir: s.dir, now: s.now, ids: s.ids + 1000*(n+1), head: p.Leaf, pick: s.pick, crlf: s.crlf}
		randomTurn(next, n)
		next.flush(t)
		got, err := c.Capture(context.Background(), src, &p, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		turn = capturedTurn{got.Position, modelInput(next.bytes(t), got.Position.Leaf)}
		if s.pick(2) == 0 {
			if err := os.Remove(src.Path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// captureCut returns the position of a cut, and compares it with the position of an
// unrelated session with the same bytes.
func captureCut(t *testing.T, c *claude.Transcripts, o *memoryObjects, src segno.Source, of segno.Position) segno.Position {
	t.Helper()
	ctx := context.Background()
	got, err := c.CaptureCut(ctx, src, of, o, o)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := c.Capture(ctx, src, nil, newMemoryObjects(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := whole.Position
	want.Log = got.Log
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Fatalf("placed at\n%s\nwant\n%s", a, b)
	}
	checkStored(t, o, got, src.Path)
	if ok, err := c.EndsAt(ctx, src, got); err != nil || !ok {
		t.Fatalf("EndsAt: %v, %v", ok, err)
	}
	return got
}

// checkStored checks that a position's objects are enough to reproduce a file. It cuts them in a
// home without any other file, and that fails if the bytes differ.
func checkStored(t *testing.T, o *memoryObjects, p segno.Position, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || segno.HashOf(data[:p.Offset]) != p.SHA256 {
		t.Fatalf("%d bytes, %v: not those of the position", len(data), err)
	}
	home := t.TempDir()
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}})
	p.Path = ""
	kept := newMemoryObjects()
	err = c.Trace(context.Background(), p, o, func(h segno.Hash) bool {
		kept.data[h] = o.data[h]
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cut(context.Background(), p, segno.Target{Session: "99999999-0000-4000-8000-000000000009", Dir: home}, kept); err != nil {
		t.Fatalf("what is stored is not the file: %v\n%s", err, o.data[p.Log])
	}
}

// TestUndoStoresLittle repeatedly undoes and continues a large session.
func TestUndoStoresLittle(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	home := t.TempDir()
	s := bigSession(t, home, 5<<20)
	o := newMemoryObjects()
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}, Objects: o})
	got, err := c.Capture(context.Background(), s.source(), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := got.Earlier[len(got.Earlier)-1].Position
	before := o.size
	for n := range 20 {
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: s.dir}
		src, err := c.Cut(context.Background(), at, to, o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.CaptureCut(context.Background(), src, at, o, o)
		if err != nil {
			t.Fatal(err)
		}
		if n%5 == 4 {
			checkStored(t, o, p, src.Path)
		}
		next := &sessionWriter{path: src.Path, session: to.Session, dir: s.dir, now: s.now, ids: s.ids + 100*(n+1), head: p.Leaf, pick: first}
		next.turn("again")
		next.flush(t)
		more, err := c.Capture(context.Background(), src, &p, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		at = more.Position
	}
	if grown := o.size - before; grown > 100<<10 {
		t.Errorf("20 cuts and turns of a session of %d bytes took %d", got.Position.Offset, grown)
	}
}

// The log of a cut that leaves out lines derives, too, and lists only the last line. A cut
// of that cut has a log that is read through both of them.
func TestCutsThatLeaveLinesOut(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	ctx := context.Background()
	d := newFixture(t, 40)
	p := d.capture(t, nil, nil).Position
	for n := range 40 {
		back := p.Leaf
		d.prompt("to be left out")
		d.answer("so be it")
		d.head = back
		d.lastPrompt(back, `"explicit":true,`)
		d.flush(t)
		whole := d.capture(t, &p, nil).Position
		before := d.o.size
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: d.dir}
		// The agent would not continue from here without a pointer.
		d.lastPrompt(uuidOf(bytes.SplitAfter(d.bytes(t), []byte("\n"))[0]), `"explicit":true,`)
		d.flush(t)
		at := d.capture(t, &whole, nil).Position
		at.Leaf = back
		src, err := d.c.Cut(ctx, at, to, d.o)
		if err != nil {
			t.Fatal(err)
		}
		p = captureCut(t, d.c, d.o, src, at)
		derived := bytes.Contains(d.o.data[p.Log], []byte("\nkeep "))
		if want := n%17 != 16; derived != want {
			t.Errorf("cut %d is stored as\n%s", n, d.o.data[p.Log])
		}
		if grown := d.o.size - before; derived && grown > 2000 {
			t.Errorf("cut %d took %d bytes", n, grown)
		}
		d.path, d.session = src.Path, src.Session
	}
}

func TestCaptureCutStoresWhatCannotBeDerived(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]func(d *fixture, of *segno.Position) segno.Objects{
		"no objects":         func(*fixture, *segno.Position) segno.Objects { return nil },
		"no log":             func(d *fixture, of *segno.Position) segno.Objects { of.Log = segno.Hash{}; return d.o },
		"a log that is gone": func(d *fixture, of *segno.Position) segno.Objects { return newMemoryObjects() },
		"another log":        func(d *fixture, of *segno.Position) segno.Objects { of.Offset++; return d.o },
		"other bytes":        func(d *fixture, of *segno.Position) segno.Objects { of.SHA256[0]++; return d.o },
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, 3)
			of := d.capture(t, nil, nil).Position
			src, err := d.c.Cut(ctx, of, d.target(), d.o)
			if err != nil {
				t.Fatal(err)
			}
			from := c(d, &of)
			fresh := newMemoryObjects()
			p, err := d.c.CaptureCut(ctx, src, of, from, fresh)
			if err != nil {
				t.Fatal(err)
			}
			checkStored(t, fresh, p, src.Path)
		})
	}
	d := newFixture(t, 1)
	of := d.capture(t, nil, nil).Position
	_, err := d.c.CaptureCut(ctx, segno.Source{Session: secondSession, Dir: d.dir}, of, d.o, d.o)
	wantKind(t, err, segno.KindNotFound)
	end, cancel := context.WithCancel(ctx)
	src, err := d.c.Cut(ctx, of, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err = d.c.CaptureCut(end, src, of, d.o, d.o); err == nil {
		t.Error("a cancelled call went on")
	}
}

// A session of a few lines does not derive from a large one if it left out most of the lines.
func TestCaptureCutOfASmallPart(t *testing.T) {
	home := t.TempDir()
	s := bigSession(t, home, 4<<20)
	o := newMemoryObjects()
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}, Objects: o})
	s.head = ""
	s.prompt("a new beginning")
	leaf := s.answer("indeed")
	s.prompt("and")
	s.answer("on")
	s.flush(t)
	got, err := c.Capture(context.Background(), s.source(), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := got.Position
	at.Leaf = leaf
	src, err := c.Cut(context.Background(), at, segno.Target{Session: secondSession, Dir: s.dir}, o)
	if err != nil {
		t.Fatal(err)
	}
	p := captureCut(t, c, o, src, at)
	if strings.Contains(string(o.data[p.Log]), "prev") {
		t.Errorf("%d bytes are derived from %d", p.Offset, at.Offset)
	}
}

// If the log was collected by then, the next capture stores everything.
func TestCaptureAfterALogThatIsGone(t *testing.T) {
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	delete(d.o.data, p.Log)
	d.turn("three")
	d.flush(t)
	got := d.capture(t, &p, nil)
	checkStored(t, d.o, got.Position, d.path)
	if got.Follows != p.Leaf || len(got.Earlier) > 0 {
		t.Errorf("captured %+v", got)
	}
}
