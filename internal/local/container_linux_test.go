package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/testing/containerrig"
	"github.com/dalsegno/segno/timeline"
)

// beginBy opens a turn of a session that a process runs.
func (g *fixture) beginBy(key segno.TurnKey, process timeline.Process) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		_, err := tl.BeginTurn(ctx, timeline.Prompt{Key: key, Agent: "test", Text: string(key), Source: segno.Source{Session: "session", Dir: g.project}, Process: process})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
}

func inContainer(c containerrig.Process) timeline.Process {
	return timeline.Process{PID: c.PID, PIDStart: c.Start, Machine: c.Machine}
}

// TestATurnInAContainerIsOpen undoes beside the turn of an agent in a container that has the same project and store. Here, another
// process has the agent's number.
func TestATurnInAContainerIsOpen(t *testing.T) {
	g := newFixture(t)
	g.place.Now = time.Now
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	container := containerrig.Start(t)
	g.beginBy("B", inContainer(container))
	g.write("a", "half")
	undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
	if _, err := g.move(nil, undo); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("an undo: %v", err)
	}
	if got := g.files(); got != "a \"half\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	container.End()
	// If this test itself runs in a container, it cannot see that the other one has ended.
	g.place.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := g.move(nil, undo); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("AB")
	g.checkStore()
}

// TestATurnOutsideOfTheContainerIsOpen undoes in a container while an agent works outside of it. The undo cannot see the agent.
func TestATurnOutsideOfTheContainerIsOpen(t *testing.T) {
	g := newFixture(t)
	g.place.Now = time.Now
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	g.beginBy("B", spool.TurnProcess(os.Getpid()))
	g.write("a", "half")
	undo := func(later time.Duration) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "SEGNO_TEST_CONTAINER="+filepath.Dir(g.project), "SEGNO_TEST_LATER="+later.String())
		cmd.SysProcAttr = containerrig.Namespaces(syscall.CLONE_NEWPID | syscall.CLONE_NEWNS)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := undo(50 * time.Minute); got != segno.KindRefused.String() {
		t.Errorf("an undo: %s", got)
	}
	if got := g.files(); got != "a \"half\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	if got := undo(70 * time.Minute); got != "" {
		t.Errorf("an undo an hour after the last event: %s", got)
	}
	g.wantTurns("AB")
	g.checkStore()
}

// undoInContainer undoes a turn in a process that has a PID namespace, and prints the kind of the error.
func undoInContainer(dir string) {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	later, parseErr := time.ParseDuration(os.Getenv("SEGNO_TEST_LATER"))
	if err != nil || parseErr != nil {
		fmt.Println(err, parseErr)
		os.Exit(1)
	}
	g := &fixture{project: filepath.Join(dir, "project"), place: local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"),
		Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}, Now: func() time.Time { return time.Now().Add(later) }}}
	if err := moveOnce(context.Background(), g, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err != nil {
		fmt.Println(segno.KindOf(err))
	}
	os.Exit(0)
}

// TestASessionContinuesInAnotherContainer continues a session after its container was replaced during a turn: the turn ends.
func TestASessionContinuesInAnotherContainer(t *testing.T) {
	g := newFixture(t)
	g.place.Now = time.Now
	g.write("a", "0")
	first, second := containerrig.Start(t), containerrig.Start(t)
	g.beginBy("A", inContainer(first))
	g.write("a", "A")
	agent := inContainer(second)
	agent.PID = 2 // it has another number there
	g.beginBy("B", agent)
	if o := g.open(); len(o) != 1 || o[0].Key != "B" {
		t.Errorf("open are %+v", o)
	}
	g.wantTurns("A")
	g.checkStore()
}
