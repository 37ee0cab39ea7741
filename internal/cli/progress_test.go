package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestProgressPretendsNoTotal checks that a scan shows no percentage. Its total grows while it
// finds files, so a percentage would jump back and forth, and reach 100 % in the middle.
func TestProgressPretendsNoTotal(t *testing.T) {
	var out bytes.Buffer
	a := &App{Env: Env{Stderr: &out}}
	b := &progressBar{app: a, on: true, start: time.Now().Add(-time.Minute)}
	b.update(5<<20, 5<<20) // the scan has read all files that it has found so far
	b.last = time.Time{}
	b.update(6<<20, 60<<20)
	if got := out.String(); got != "\r\x1b[Kscanning: "+Size(5<<20)+" read\r\x1b[Kscanning: "+Size(6<<20)+" read" {
		t.Errorf("it drew %q", got)
	}
	a.Bar = b
	a.Notef("done")
	a.Notef("really")
	if got := out.String(); !strings.HasSuffix(got, "read\r\x1b[Kdone\nreally\n") {
		t.Errorf("the line was not erased once, before the result: %q", got)
	}
}

// TestAMoveShowsItsProgress checks that a move of many files shows how far it is.
func TestAMoveShowsItsProgress(t *testing.T) {
	var out bytes.Buffer
	b := &progressBar{app: &App{Env: Env{Stderr: &out}}, on: true, start: time.Now().Add(-time.Minute)}
	b.updateApplied(450, 3000)
	if got := out.String(); got != "\r\x1b[Kchanging files: 15 %" {
		t.Errorf("it drew %q", got)
	}
}

// TestAStoppedBarLeavesTheScreenAlone checks that no scan draws on the screen of the chat.
func TestAStoppedBarLeavesTheScreenAlone(t *testing.T) {
	var out bytes.Buffer
	b := &progressBar{app: &App{Env: Env{Stderr: &out}}, on: true, start: time.Now().Add(-time.Minute)}
	b.update(5<<20, 5<<20)
	b.Stop()
	out.Reset()
	b.last = time.Time{}
	b.update(6<<20, 6<<20)
	if out.Len() > 0 {
		t.Errorf("it drew %q", out.String())
	}
}

// TestALongCountPrintsLines counts without a terminal, and then on a terminal.
func TestALongCountPrintsLines(t *testing.T) {
	var out bytes.Buffer
	a := &App{Env: Env{Stderr: &out, Getenv: func(string) string { return "" }}}
	update := a.Count("keeping", "session")
	for i := range int64(2500) {
		update(i+1, 2500)
	}
	if got := out.String(); got != "keeping: 1000 of 2500 sessions\nkeeping: 2000 of 2500 sessions\n" {
		t.Errorf("it printed %q", got)
	}
	out.Reset()
	update(1000, 1000) // the result follows at once
	a.Bar.on, a.Bar.start = true, time.Now().Add(-time.Minute)
	a.Bar.update(3, 70)
	if got := out.String(); got != "\r\x1b[Kkeeping: 3 of 70 sessions" {
		t.Errorf("it drew %q", got)
	}
}

// TestTransferShowsBytesAndRate draws the progress of a transfer with a known size.
func TestTransferShowsBytesAndRate(t *testing.T) {
	b := &progressBar{verb: "packing"}
	if got := b.text(30<<20, 120<<20, 3*time.Second); got != "packing: 30.0 MiB of 120.0 MiB, 25 %, 10.0 MiB/s" {
		t.Errorf("it draws %q", got)
	}
	if got := b.text(0, 0, 0); got != "packing: 0 B of 0 B, 0 %, 0 B/s" {
		t.Errorf("of nothing it draws %q", got)
	}
}
