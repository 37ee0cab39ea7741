package workspace_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// seen is the output of ls, cat, stat and getfattr for a tree, with one line for each path. It
// shares no code with the scanner. git holds the paths in a .git, and tree the others.
type seen struct {
	tree, git map[string]string
	mtime     map[string]int64 // of files
}

func look(t testing.TB, root string) seen {
	t.Helper()
	s := seen{make(map[string]string), make(map[string]string), make(map[string]int64)}
	first := make(map[uint64]string)
	var paths []string
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(a[len(root):], b[len(root):]) })
	for _, path := range paths[1:] {
		rel := path[len(root)+1:]
		line, ino := describe(t, path)
		if strings.HasPrefix(line, "file") {
			s.mtime[rel] = mtimeOf(t, path)
			if at, ok := first[ino]; ok {
				line += " = " + at
			} else {
				first[ino] = rel
			}
		}
		if slices.Contains(strings.Split(rel, "/"), ".git") {
			s.git[rel] = line
		} else {
			s.tree[rel] = line
		}
	}
	return s
}

func describe(t testing.TB, path string) (string, uint64) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	perm := fmt.Sprintf("%04o", st.Mode&0o7777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "dir " + perm + attributes(t, path), st.Ino
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		return "symlink " + target, st.Ino
	case unix.S_IFREG:
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("file %s %q%s", perm, data, attributes(t, path)), st.Ino
	}
	return "special " + perm, st.Ino
}

func attributes(t testing.TB, path string) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Listxattr(path, buf)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, name := range strings.Split(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Getxattr(path, name, value)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(value[:n])
	}
	out := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out += fmt.Sprintf(" %s=%q", name, all[name])
	}
	return out
}

func mtimeOf(t testing.TB, path string) int64 {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.ModTime().UnixNano()
}

// sameTree fails the test unless both trees are equal except for their times.
func sameTree(t rapid.TB, what string, got, want seen) {
	t.Helper()
	if diff := cmp.Diff(want.tree, got.tree); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
