package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/secret"
)

const (
	archiveFiles    = 14_000
	transcriptBytes = 100_000_000
)

// archiveInput is the input of the archives: files of the Go distribution and one transcript.
type archiveInput struct {
	root       string // contains both, for the peers
	tree       string
	transcript string
	files      int
	bytes      int64
	sample     []byte // some of the files' text
}

// newArchiveInput copies text files of the Go distribution. It omits files in which the
// scanner finds a secret: these are test keys, and segno refuses to archive them.
func newArchiveInput(root string) (*archiveInput, error) {
	in := &archiveInput{root: root, tree: filepath.Join(root, "tree"), transcript: filepath.Join(root, "session.jsonl")}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		return nil, err
	}
	goroot := strings.TrimSpace(string(out))
	for _, dir := range []string{"src", "test", "api", "lib", "doc", "misc"} {
		if err := in.copyTree(goroot, dir, scanner); err != nil {
			return nil, err
		}
	}
	return in, in.writeTranscript()
}

func (in *archiveInput) copyTree(goroot, dir string, scanner *secret.Scanner) error {
	err := filepath.WalkDir(filepath.Join(goroot, dir), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // not every distribution has every directory
		case err != nil:
			return err
		case in.files == archiveFiles:
			return fs.SkipAll
		case !e.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(goroot, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := scanner.Scan(name, bytes.NewReader(data))
		if err != nil || len(found) > 0 {
			return err
		}
		return in.add(name, data)
	})
	return err
}

func (in *archiveInput) add(name string, data []byte) error {
	to := filepath.Join(in.tree, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in.files++
	in.bytes += int64(len(data))
	if strings.HasSuffix(name, ".go") && len(in.sample) < 16<<20 {
		in.sample = append(in.sample, data...)
	}
	return os.WriteFile(to, data, 0o644)
}

// writeTranscript writes a conversation whose tool calls show parts of the files.
func (in *archiveInput) writeTranscript() error {
	s, err := newSession(in.root, in.tree)
	if err != nil {
		return err
	}
	for n := 0; s.lines.Len() < transcriptBytes; n++ {
		from := n * 7919 % (len(in.sample) - 9000)
		s.sayOutput(strings.ToValidUTF8(string(in.sample[from:from+8000]), ""))
	}
	in.bytes += int64(s.lines.Len())
	s.source.Path = in.transcript
	if err := s.flush(); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(in.root, "projects"))
}
