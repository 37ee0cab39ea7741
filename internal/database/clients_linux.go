package database

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// clients describes the other processes that have the file at path open. It finds only processes whose open files this
// user may list.
func clients(path string) (found []string) {
	want, err := os.Stat(path)
	if err != nil {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, dir := range dirs {
		pid := filepath.Base(filepath.Dir(dir))
		if pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if fi, err := os.Stat(filepath.Join(dir, f.Name())); err == nil && os.SameFile(fi, want) {
				name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
				found = append(found, fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid))
				break
			}
		}
	}
	return found
}
