package einofiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk/filesystem"
)

// Eino runs the calls of one answer at the same time. Each edit of one file must be in it.
func TestConcurrentEditsLoseNothing(t *testing.T) {
	dir, _, f := open(t)
	var words []string
	for i := range 16 {
		words = append(words, fmt.Sprintf("old%02d\n", i))
	}
	old := strings.Join(words, "")
	for range 5 {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		var edits sync.WaitGroup
		for _, word := range words {
			edits.Go(func() {
				req := &filesystem.EditRequest{FilePath: "a.txt", OldString: word, NewString: strings.Replace(word, "old", "new", 1)}
				if err := f.Edit(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		edits.Wait()
		wantFile(t, dir, "a.txt", strings.ReplaceAll(old, "old", "new"))
	}
}

// A command leaves a process in the background. Its result is that of the command, and the process ends with it.
func TestACommandEndsWithItsProcesses(t *testing.T) {
	_, _, f := open(t)
	for _, command := range []string{"sleep 600 & echo $!", "sleep 600 >/dev/null 2>&1 & echo $!"} {
		out, err := f.Execute(t.Context(), &filesystem.ExecuteRequest{Command: command})
		if err != nil || *out.ExitCode != 0 {
			t.Fatalf("%s: %+v, %v", command, out, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(out.Output))
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); isAlive(pid); runtime.Gosched() {
			if time.Now().After(deadline) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("%s: the process in the background continues", command)
			}
		}
	}
}

// isAlive reports whether a process has not ended.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}
