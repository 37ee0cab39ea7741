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
	a := &app{Env: Env{Stderr: &out}}
	b := &progressBar{app: a, on: true, start: time.Now().Add(-time.Minute)}
	b.update(5<<20, 5<<20) // the scan has read all files that it has found so far
	b.last = time.Time{}
	b.update(6<<20, 60<<20)
	if got := out.String(); got != "\r\x1b[Kscanning: "+size(5<<20)+" read\r\x1b[Kscanning: "+size(6<<20)+" read" {
		t.Errorf("it drew %q", got)
	}
	a.bar = b
	a.notef("done")
	a.notef("really")
	if got := out.String(); !strings.HasSuffix(got, "read\r\x1b[Kdone\nreally\n") {
		t.Errorf("the line was not erased once, before the result: %q", got)
	}
}

// TestAStoppedBarLeavesTheScreenAlone checks that no scan draws on the screen of the chat.
func TestAStoppedBarLeavesTheScreenAlone(t *testing.T) {
	var out bytes.Buffer
	b := &progressBar{app: &app{Env: Env{Stderr: &out}}, on: true, start: time.Now().Add(-time.Minute)}
	b.update(5<<20, 5<<20)
	b.stop()
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
	a := &app{Env: Env{Stderr: &out, Getenv: func(string) string { return "" }}}
	update := a.count("keeping", "session")
	for i := range int64(2500) {
		update(i+1, 2500)
	}
	if got := out.String(); got != "keeping: 1000 of 2500 sessions\nkeeping: 2000 of 2500 sessions\n" {
		t.Errorf("it printed %q", got)
	}
	out.Reset()
	update(1000, 1000) // the result follows at once
	a.bar.on, a.bar.start = true, time.Now().Add(-time.Minute)
	a.bar.update(3, 70)
	if got := out.String(); got != "\r\x1b[Kkeeping: 3 of 70 sessions" {
		t.Errorf("it drew %q", got)
	}
}
