package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fillHome writes n sessions of Claude Code, each with some turns of a number of tool calls, whose output
// is about size bytes each. It returns the total size in bytes.
func fillHome(home string, n, turns, calls, size int) (total int64, err error) {
	var templates [8][]byte
	for i := range templates {
		dir := filepath.Join(home, "template")
		s, err := newSession(dir, "/srv/project")
		if err != nil {
			return 0, err
		}
		for range turns {
			for range calls - 1 {
				s.call(size)
			}
			s.say(size)
		}
		templates[i] = bytes.Clone(s.lines.Bytes())
		if err := os.RemoveAll(dir); err != nil {
			return 0, err
		}
	}
	for i := range n {
		id := fmt.Sprintf("%08x-0000-4000-8000-000000000001", i)
		// Records of different sessions have different ids.
		text := bytes.ReplaceAll(templates[i%len(templates)], []byte("-4000-8000-"), fmt.Appendf(nil, "-4%03x-8%03x-", i&0xfff, i>>12))
		text = bytes.ReplaceAll(text, []byte("11111111-0000-4"+fmt.Sprintf("%03x-8%03x", i&0xfff, i>>12)+"-000000000001"), []byte(id))
		path := filepath.Join(home, "projects", fmt.Sprintf("-srv-project-%d", i%50), id+".jsonl")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return 0, err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return 0, err
		}
		total += int64(len(text))
	}
	return total, nil
}

// call adds a tool call to the current turn, which the next say ends.
func (s *session) call(size int) {
	tool, out := "toolu_"+s.uuid(), string(prose(s.rand, size))
	if s.calls++; s.calls == 1 {
		s.turns++
		s.user(string(prose(s.rand, 400)), nil)
	}
	s.assistant("tool_use", map[string]any{"type": "tool_use", "id": tool, "name": "Bash", "input": map[string]any{"command": "go test ./..."}})
	s.user([]any{map[string]any{"type": "tool_result", "tool_use_id": tool, "content": out}}, map[string]any{"toolUseResult": map[string]any{"stdout": out, "stderr": ""}})
}

// readHeads opens every session and reads its first 64 KiB.
func readHeads(home string) (n int, err error) {
	buf := make([]byte, 64<<10)
	err = filepath.WalkDir(filepath.Join(home, "projects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n++
		if _, err := f.Read(buf); err != nil && err != io.EOF {
			return err
		}
		return nil
	})
	return n, err
}

// copyTree copies a directory with cp and syncs its file system.
func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-r", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
