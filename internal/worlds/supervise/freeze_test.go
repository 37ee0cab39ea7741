package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startCounter starts a group that counts in a file, and a process outside of the group that counts in another one.
func startCounter(t *testing.T) (g *Group, files []string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, nil // there, Freeze stops the group as a whole
	}
	dir := t.TempDir()
	const count = `n=0; while :; do n=$((n+1)); echo $n > `
	g, err := Start(t.Context(), []string{"sh", "-c", "(setsid sh -c '" + count + "b; done' &); " + count + "a; done"},
		Options{Dir: dir, Env: append(os.Environ(), "FREEZE_TEST="+dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Kill(); KillWith("FREEZE_TEST=" + dir) })
	files = []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for _, f := range files {
		awaitChange(t, f, "")
	}
	return g, files
}

// awaitChange waits until a file has another content than from.
func awaitChange(t *testing.T, file, from string) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(5 * time.Minute); ; <-poll.C {
		data, _ := os.ReadFile(file) // "" until it exists
		if text := strings.TrimSpace(string(data)); text != "" && text != from {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s stays %q", file, from)
		}
	}
}

// TestFreeze stops a group and a process that left it, and continues them.
func TestFreeze(t *testing.T) {
	g, files := startCounter(t)
	if g == nil {
		return
	}
	mark := "FREEZE_TEST=" + filepath.Dir(files[0])
	thaw := Freeze([]*Group{g}, mark)
	if left := runningIn([]*Group{g}, []string{mark}); len(left) > 0 {
		t.Errorf("%d still run", len(left))
	}
	var before []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, strings.TrimSpace(string(data)))
	}
	thaw()
	for i, f := range files {
		awaitChange(t, f, before[i])
	}
}

// TestOwnerEndsWhileFrozen closes the pipe that the end of the owner would close. The frozen group must end.
func TestOwnerEndsWhileFrozen(t *testing.T) {
	g, files := startCounter(t)
	if g == nil {
		return
	}
	Freeze([]*Group{g}, "FREEZE_TEST="+filepath.Dir(files[0]))
	g.owned.Close()
	select {
	case <-g.Gone:
	case <-time.After(time.Minute):
		t.Fatal("the group is frozen and stays")
	}
}
