package signals_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/signals"
)

// TestRestore starts this test again with SIGHUP ignored. That process starts a shell, which sends SIGHUP to itself.
func TestRestore(t *testing.T) {
	if os.Getenv("SEGNO_TEST_IGNORES") == "" {
		cmd := exec.Command("sh", "-c", `trap '' HUP; exec "$0" -test.run='^TestRestore$'`, os.Args[0])
		cmd.Env = append(os.Environ(), "SEGNO_TEST_IGNORES=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if !signal.Ignored(syscall.SIGHUP) {
		t.Fatal("SIGHUP is not ignored")
	}
	hangUp := func() error { return exec.Command("sh", "-c", "kill -HUP $$").Run() }
	if err := hangUp(); err != nil {
		t.Fatalf("the shell ends with %v although it ignores SIGHUP", err)
	}
	signals.Restore()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := hangUp(); err == nil {
		t.Error("the shell still ignores SIGHUP")
	}
}
