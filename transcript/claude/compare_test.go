package claude_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestBeginsWith compares a session's transcript with a position, after changes that may
// happen while an agent runs.
func TestBeginsWith(t *testing.T) {
	for name, tc := range map[string]struct {
		does func(t *testing.T, d *fixture)
		want bool
	}{
		"nothing":              {func(*testing.T, *fixture) {}, true},
		"another turn":         {func(t *testing.T, d *fixture) { d.turn("more"); d.flush(t) }, true},
		"a torn line":          {func(t *testing.T, d *fixture) { d.replaceFile(t, append(d.bytes(t), `{"type":"us`...)) }, true},
		"rewound":              {func(t *testing.T, d *fixture) { d.lastPrompt("", `"explicit":true,`); d.flush(t) }, true},
		"deleted":              {func(t *testing.T, d *fixture) { d.remove(t) }, false},
		"deleted and begun":    {func(t *testing.T, d *fixture) { d.remove(t); d.head = ""; d.turn("anew"); d.flush(t) }, false},
		"begun and grown past": {func(t *testing.T, d *fixture) { d.remove(t); d.head = ""; d.longTurn(); d.flush(t) }, false},
		"emptied":              {func(t *testing.T, d *fixture) { d.replaceFile(t, nil) }, false},
		"cut by a line":        {func(t *testing.T, d *fixture) { d.replaceFile(t, withoutLast(d.bytes(t))) }, false},
		"cut by a byte":        {func(t *testing.T, d *fixture) { b := d.bytes(t); d.replaceFile(t, b[:len(b)-1]) }, false},
		"another byte near":    {func(t *testing.T, d *fixture) { b := d.bytes(t); b[len(b)-100] ^= 1; d.replaceFile(t, b) }, false},
		"a directory instead":  {func(t *testing.T, d *fixture) { d.remove(t); d.mkdir(t) }, false},
		"a link to nothing":    {func(t *testing.T, d *fixture) { d.remove(t); d.link(t, "nowhere") }, false},
		"the same, put back":   {func(t *testing.T, d *fixture) { b := d.bytes(t); d.remove(t); d.replaceFile(t, b) }, true},
		"the same, behind a link": {func(t *testing.T, d *fixture) {
			elsewhere := filepath.Join(d.home, "elsewhere")
			if err := os.Rename(d.path, elsewhere); err != nil {
				t.Fatal(err)
			}
			d.link(t, elsewhere)
		}, true},
	} {
		for _, known := range []bool{true, false} {
			d := newFixture(t, 3)
			p := d.capture(t, nil, nil).Position
			tc.does(t, d)
			src := d.source()
			if !known {
				src.Path = ""
			}
			got, err := d.c.BeginsWith(context.Background(), src, p)
			if err != nil || got != tc.want {
				t.Errorf("%s, its path known %v: %v, %v; want %v", name, known, got, err, tc.want)
			}
		}
	}
}

func (d *fixture) replaceFile(t *testing.T, data []byte) {
	t.Helper()
	if err := os.WriteFile(d.path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *fixture) remove(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.path); err != nil {
		t.Fatal(err)
	}
}

func (d *fixture) mkdir(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func (d *fixture) link(t *testing.T, to string) {
	t.Helper()
	if err := os.Symlink(to, d.path); err != nil {
		t.Fatal(err)
	}
}

// longTurn adds a turn that is longer than all the turns before it.
func (d *fixture) longTurn() {
	d.prompt("anew")
	d.answer(strings.Repeat("long ", 10_000))
}

func withoutLast(data []byte) []byte {
	lines := bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	return bytes.Join(lines[:len(lines)-1], nil)
}

// A position without a digest always matches; a malformed digest never does.
func TestBeginsWithOfNoDigest(t *testing.T) {
	d := newFixture(t, 1)
	p := d.capture(t, nil, nil).Position
	for _, tc := range []struct {
		digest []byte
		want   bool
	}{{nil, true}, {[]byte{}, true}, {[]byte("x"), false}, {p.Digest[:len(p.Digest)-1], false}, {bytes.Repeat([]byte{7}, len(p.Digest)), false}, {p.Digest, true}} {
		at := p
		at.Digest = tc.digest
		if got, err := d.c.BeginsWith(context.Background(), d.source(), at); err != nil || got != tc.want {
			t.Errorf("a digest of %d bytes: %v, %v; want %v", len(tc.digest), got, err, tc.want)
		}
	}
	p.Offset = -1
	if got, err := d.c.BeginsWith(context.Background(), d.source(), p); err != nil || got {
		t.Errorf("a position before the file: %v, %v", got, err)
	}
}

// The position may be the end of an older turn.
func TestBeginsWithOfAnOlderPosition(t *testing.T) {
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	for range 3 {
		d.turn("more")
		d.flush(t)
	}
	if got, err := d.c.BeginsWith(context.Background(), d.source(), p); err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
	d.replaceFile(t, d.bytes(t)[:p.Offset]) // restored
	if got, err := d.c.BeginsWith(context.Background(), d.source(), p); err != nil || !got {
		t.Errorf("cut where it was: %v, %v", got, err)
	}
}

// A session that moved is found in its new place.
func TestBeginsWithOfASessionThatMoved(t *testing.T) {
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	to := filepath.Join(d.home, "projects", "-elsewhere", filepath.Base(d.path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.path, to); err != nil {
		t.Fatal(err)
	}
	if got, err := d.c.BeginsWith(context.Background(), segno.Source{Session: d.session}, p); err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
}

// An id that could point outside the agent's directory is refused.
func TestBeginsWithOfNoSession(t *testing.T) {
	d := newFixture(t, 1)
	p := d.capture(t, nil, nil).Position
	_, err := d.c.BeginsWith(context.Background(), segno.Source{Session: "../" + d.session}, p)
	wantKind(t, err, segno.KindInvalid)
}
