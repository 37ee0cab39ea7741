package local_test

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// TestMain lets the test binary act as the process that the tests kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SEGNO_TEST_MOVES"); dir != "" {
		moveUntilKilled(dir, os.Getenv("SEGNO_TEST_ONLY") != "")
	}
	if dir := os.Getenv("SEGNO_TEST_KEEPS"); dir != "" {
		keepUntilKilled(dir)
	}
	if dir := os.Getenv("SEGNO_TEST_KEEPS_ALL"); dir != "" {
		keepAllUntilKilled(dir)
	}
	if dir := os.Getenv("SEGNO_TEST_CONTAINER"); dir != "" {
		undoInContainer(dir)
	}
	if dir := os.Getenv("SEGNO_TEST_SEALS"); dir != "" {
		sealUntilKilled(dir)
	}
	soak.DrawIfShort()
	memdir.Use()
	os.Exit(m.Run())
}

// moveUntilKilled undoes and redoes until the process is killed, and prints a line after each move. If only is set, it undoes
// one old turn alone, and undoes that operation.
func moveUntilKilled(dir string, only bool) {
	g := &fixture{project: filepath.Join(dir, "project"), place: local.Place{Store: filepath.Join(dir, "store"),
		UserHome: filepath.Join(dir, "home"), Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}, Now: time.Now}}
	ctx := context.Background()
	for i := 0; ; i++ {
		ask := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2}
		switch {
		case only && i%2 == 0:
			ask = undoOfSecond
		case only:
			ask = timeline.MoveRequest{Verb: segno.VerbOpUndo}
		case i%2 == 1:
			ask.Verb = segno.VerbRedo
		}
		if err := moveOnce(ctx, g, ask); segno.KindOf(err) == segno.KindNotFound {
			continue // the previous process was killed after this move, so it is already done
		} else if err != nil {
			os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("moved\n")
	}
}

func moveOnce(ctx context.Context, g *fixture, ask timeline.MoveRequest) error {
	return withTimelineAt(ctx, g.place, g.project, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		_, err := tl.Move(ctx, ask, nil)
		return err
	})
}

// TestKilledInMidMove repeatedly kills a process during a move. The next command finds or completes
// one of the two states, and nothing is lost or damaged.
func TestKilledInMidMove(t *testing.T) {
	g, states := threeTurns(t)
	dir := filepath.Dir(g.project)
	for i := range soak.Count(t, 8, 2000) {
		killOnce(t, dir)
		g.runNextCommand()
		if got := g.files(); got != states[1] && got != states[3] {
			t.Fatalf("after kill %d the files are\n%s", i, got)
		}
		g.wantFilesOfHead()
	}
	g.checkStore()
}

// TestKilledInMidUndoOfOneTurn is TestKilledInMidMove for undos of an old turn alone.
func TestKilledInMidUndoOfOneTurn(t *testing.T) {
	if testing.Short() {
		return
	}
	g, states := threeTurns(t)
	for i := range soak.Count(t, 4, 1000) {
		killOnce(t, filepath.Dir(g.project), "SEGNO_TEST_ONLY=1")
		g.runNextCommand()
		if got := g.files(); got != withoutSecond && got != states[3] {
			t.Fatalf("after kill %d the files are\n%s", i, got)
		}
		g.wantFilesOfHead()
	}
	g.checkStore()
}

func killOnce(t *testing.T, dir string, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), "SEGNO_TEST_MOVES="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 1 + rand.IntN(3) {
		if !lines.Scan() || strings.HasPrefix(lines.Text(), "error") {
			_ = cmd.Process.Kill()
			t.Fatalf("a move failed: %s", lines.Text())
		}
	}
	killed := time.AfterFunc(time.Duration(rand.IntN(12_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "error") {
			t.Fatalf("a move failed: %s", lines.Text())
		}
	}
	_ = cmd.Wait() // killed, as it should be
}
