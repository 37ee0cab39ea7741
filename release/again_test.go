package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// testAgain builds in another directory, which is no git repository, and compares the bytes. By default it builds only the small
// program. With SEGNO_SOAK it builds the whole release, with an empty cache.
func (r *produced) testAgain(t *testing.T) {
	other := copyRepository(t)
	if !soak.IsWhole() {
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		if err := goBuild(t.Context(), "1.2.3", first, host(), "./cmd/segno-hook"); err != nil {
			t.Fatal(err)
		}
		t.Chdir(other)
		if err := goBuild(t.Context(), "1.2.3", second, host(), "./cmd/segno-hook"); err != nil {
			t.Fatal(err)
		}
		if read(t, filepath.Join(first, "segno-hook")) != read(t, filepath.Join(second, "segno-hook")) {
			t.Error("the program depends on the directory of the source")
		}
		return
	}
	s, err := readSource(t.Context(), "0.0.0-gtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(s.time.Unix(), 10))
	t.Setenv("GOCACHE", t.TempDir())
	t.Chdir(other)
	dist := filepath.Join(t.TempDir(), "dist")
	if err := build(t.Context(), dist, "0.0.0-gtest", r.platforms, makeManuals); err != nil {
		t.Fatal(err)
	}
	first, second := lines(read(t, r.file("checksums.txt"))), lines(read(t, filepath.Join(dist, "checksums.txt")))
	if len(first) != len(second) {
		t.Fatalf("%d files and %d", len(first), len(second))
	}
	for n := range first {
		if first[n] != second[n] && !strings.HasSuffix(first[n], "_sbom.cdx.json") { // it names the commit, which a copy does not know
			t.Errorf("%s and %s", first[n], second[n])
		}
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// copyRepository copies the files of the repository that git does not ignore, without the repository itself.
func copyRepository(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "elsewhere")
	for _, name := range lines(execute(t, "git", "ls-files", "--cached", "--others", "--exclude-standard")) {
		fi, err := os.Lstat(name)
		if err != nil || !fi.Mode().IsRegular() {
			continue // removed and not committed yet, or a link in test data
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(name, file); err == nil {
			continue
		}
		if err := os.WriteFile(file, []byte(read(t, name)), fi.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
