package secret

import (
	"bytes"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// sources reads the Go distribution's sources.
func sources(b *testing.B) (files [][]byte, size int64) {
	b.Helper()
	root := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the tree is what the benchmark needs
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, text)
		size += int64(len(text))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return files, size
}

// BenchmarkSources compares a scan of many files with simpler functions that read the same bytes.
func BenchmarkSources(b *testing.B) {
	files, size := sources(b)
	s := scanner(b, Options{})
	for _, entrant := range []struct {
		name string
		read func([]byte)
	}{
		{"scan", func(text []byte) { _, _ = s.Scan("file", bytes.NewReader(text)) }},
		{"automaton", func(text []byte) { s.words.find(0, text, func(int, []word) {}) }},
		{"sha256", func(text []byte) { sha256.Sum256(text) }},
		{"index", func(text []byte) { bytes.IndexByte(text, 0xff) }},
	} {
		b.Run(entrant.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for _, text := range files {
					entrant.read(text)
				}
			}
		})
	}
}
