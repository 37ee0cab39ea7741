package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a directory for snapshots.
type tree struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Dirs  int    `json:"dirs"`
	Bytes int64  `json:"bytes"`
	Root  string `json:"-"` // "" until it is made

	fill    func(root string) error
	changes int // the number of changes so far
}

func (t *tree) String() string {
	return fmt.Sprintf("%s: %d files, %d directories, %d MB", t.Name, t.Files, t.Dirs, t.Bytes/1e6)
}

// copyGoroot copies the Go distribution, about 15,000 files.
func copyGoroot(root string) error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find GOROOT: %w", err)
	}
	return os.CopyFS(root, os.DirFS(strings.TrimSpace(string(out))))
}

// fillSynthetic makes 100,000 text files in 1,111 directories, about 300 MB. They are the
// same in every run.
func fillSynthetic(root string) error {
	r := rand.New(rand.NewPCG(100_000, 1))
	for leaf := range 1000 {
		dir := filepath.Join(root, fmt.Sprint(leaf/100), fmt.Sprint(leaf/10%10), fmt.Sprint(leaf%10))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for i := range 100 {
			name := filepath.Join(dir, fmt.Sprintf("file%02d.txt", i))
			if err := os.WriteFile(name, prose(r, 500+r.IntN(5000)), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// prose returns about n bytes that compress like natural text.
func prose(r *rand.Rand, n int) []byte {
	words := strings.Fields(`the function returns an error when file is missing so we should check path before reading it and
		then wrap context that caller can see which record was damaged test passes now let me look at server handler next
		change config value default timeout retry budget goroutine channel select mutex index query table commit snapshot`)
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(8) == 0 {
			fmt.Fprintf(&b, "%d", r.IntN(100_000))
		}
		b.WriteByte(" \n.,"[min(3, r.IntN(12)/3)])
	}
	return b.Bytes()
}

func (t *tree) count() error {
	return filepath.WalkDir(t.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			t.Dirs++
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		t.Files++
		t.Bytes += fi.Size()
		return nil
	})
}

// victim returns the path of the file that change changes.
func (t *tree) victim() string {
	if t.Name == "go" {
		return filepath.Join(t.Root, "src", "net", "http", "server.go")
	}
	return filepath.Join(t.Root, "5", "5", "5", "file55.txt")
}

// change changes the content of one file to a new one.
func (t *tree) change() error {
	f, err := os.OpenFile(t.victim(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	t.changes++
	_, err = fmt.Fprintf(f, "// change %d\n", t.changes)
	return err
}
