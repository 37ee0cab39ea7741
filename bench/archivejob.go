package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/secret"
)

// useArchive is the child process. Like zip and unzip, it reads and writes files. It prints
// its own status from the kernel, which has the peak of its memory. The peak that its parent
// gets also counts the parent's memory before exec.
func useArchive(verb string, args []string) error {
	if err := doArchive(context.Background(), verb, args); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(status)
	return err
}

func doArchive(ctx context.Context, verb string, args []string) error {
	switch {
	case verb == "save" && len(args) == 4:
		return saveArchive(ctx, args[0], args[1], args[2], args[3])
	case verb == "load" && len(args) == 2:
		_, err := archive.Load(ctx, args[0], archive.Into{Dir: args[1], TrustSession: true})
		return err
	case verb == "verify" && len(args) == 1:
		r, err := archive.Open(args[0])
		if err != nil {
			return err
		}
		return errors.Join(r.Verify(ctx, nil), r.Close())
	case verb == "inspect" && len(args) == 1:
		m, err := archive.ReadMetadata(args[0])
		if err == nil && len(m.Agents) != 1 {
			err = fmt.Errorf("the archive has %d agents", len(m.Agents))
		}
		return err
	}
	return fmt.Errorf("archive %s: unknown use", verb)
}

// saveArchive writes an archive of input, which is a directory with a tree and a transcript,
// and of a world's document. The names of a world and of a file of verdicts may be empty.
func saveArchive(ctx context.Context, to, input, world, verdicts string) error {
	state := archive.State{Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	agent := archive.AgentState{Info: archive.AgentInfo{Name: "thread", Backend: "claude", SessionFormat: "claude-code-v1"}}
	root := filepath.Join(input, "tree")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f, err := fileOf(path, name)
		agent.Workspace = append(agent.Workspace, f)
		return err
	})
	if err != nil {
		return err
	}
	transcript, err := fileOf(filepath.Join(input, "session.jsonl"), "projects/@cwd/11111111-0000-4000-8000-000000000001.jsonl")
	if err != nil {
		return err
	}
	agent.Session = []archive.File{transcript}
	state.Agents = []archive.AgentState{agent}
	if world != "" {
		document, err := fileOf(world, "")
		if err != nil {
			return err
		}
		state.World = &archive.WorldState{Document: document}
	}
	var o archive.WriteOptions
	if verdicts == "" {
		_, err := archive.Write(ctx, to, state, o)
		return err
	}
	if o.Scanner, err = secret.New(secret.Options{}); err != nil {
		return err
	}
	if o.Verdicts, err = secret.OpenVerdicts(verdicts, o.Scanner.Digest()); err != nil {
		return err
	}
	if _, err := archive.Write(ctx, to, state, o); err != nil {
		return err
	}
	return o.Verdicts.Save(vfs.OS)
}

// fileOf converts a file on disk to a file of a state.
func fileOf(path, name string) (archive.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return archive.File{}, err
	}
	return archive.File{Path: name, Size: info.Size(), Executable: info.Mode()&0o100 != 0, Modified: info.ModTime(),
		Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}
