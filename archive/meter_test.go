package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
)

// largeFile is a state with one large file.
func largeFile() State {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
	f := File{Path: "large", Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
	return State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{f}}}}
}

// TestProgressInALargeFile expects progress before a file is complete, and all of its bytes in the end.
func TestProgressInALargeFile(t *testing.T) {
	var first, last, sum int64
	progress := func(done, total int64) {
		if first == 0 {
			first = done
		}
		last, sum = done, total
	}
	check := func(what string) {
		t.Helper()
		if first == 0 || first >= sum || last != sum || sum != 16<<20 {
			t.Errorf("%s: progress from %d to %d of %d", what, first, last, sum)
		}
		first = 0
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	mustWrite(t, name, largeFile(), WriteOptions{Progress: progress})
	check("write")
	r := mustOpen(t, name)
	if err := r.Verify(t.Context(), progress); err != nil {
		t.Error(err)
	}
	check("verify")
	if _, err := r.Load(t.Context(), Into{Dir: filepath.Join(dir, "in"), Progress: progress}); err != nil {
		t.Error(err)
	}
	check("load")
}

// TestCancelInALargeFile cancels each operation in the middle of a file. Nothing remains of its output.
func TestCancelInALargeFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ckpt")
	mustWrite(t, name, largeFile(), WriteOptions{})
	r := mustOpen(t, name)
	dir := t.TempDir()
	for what, run := range map[string]func(ctx context.Context, progress func(done, total int64)) error{
		"write": func(ctx context.Context, progress func(done, total int64)) error {
			_, err := Write(ctx, filepath.Join(dir, "b.ckpt"), largeFile(), WriteOptions{Progress: progress})
			return err
		},
		"load": func(ctx context.Context, progress func(done, total int64)) error {
			_, err := r.Load(ctx, Into{Dir: filepath.Join(dir, "in"), Progress: progress})
			return err
		},
		"verify": r.Verify,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var seen int64
		err := run(ctx, func(done, _ int64) {
			seen = done
			cancel()
		})
		if segno.KindOf(err) != segno.KindCancelled || !errors.Is(err, context.Canceled) || seen > 4<<20 {
			t.Errorf("%s: %v after %d bytes", what, err, seen)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left over: %v", what, left)
		}
	}
}
