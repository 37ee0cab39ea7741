package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

func TestOpenWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	if ids, err := threadsOf(t, s); len(ids) > 0 || err != nil {
		t.Fatal(ids, err)
	}
	_, err := s.Head(t.Context(), "nobody")
	wantKind(t, err, segno.KindNotFound)
	_, err = s.Load(t.Context(), "nobody", segno.Window{})
	wantKind(t, err, segno.KindNotFound)
	closeStore(t, s)
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Fatalf("reading made it: %v", err)
	}
}

func TestTheStoreIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	seed(t, dir, "thread", 1)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := os.Stat(path)
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		return err
	})
	must(t, err)
}

func TestFormat(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir, "thread", 1)
	name := filepath.Join(dir, "format.json")
	for data, want := range map[string]segno.Kind{
		`{"format":"segno file store","version":2}`: segno.KindNewer,
		`{"format":"segno file store","version":0}`: segno.KindCorrupt,
		`{"format":"another","version":1}`:          segno.KindCorrupt,
		`{"format":"segno fi`:                       segno.KindCorrupt,
		``:                                          segno.KindCorrupt,
	} {
		write(t, name, []byte(data))
		_, err := Open(t.Context(), dir, Options{})
		wantKind(t, err, want)
	}
	must(t, os.Remove(name)) // each log contains the version, too
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	mustCommit(t, s, turnCommit(headOf(t, s, "thread"), 2))
}

// TestNewerLog reads logs to which a newer version wrote.
func TestNewerLog(t *testing.T) {
	for name, change := range map[string]func(line string) string{
		"a newer format":  func(line string) string { return strings.Replace(line, `"format":1,`, `"format":2,`, 1) },
		"a newer record":  func(line string) string { return strings.Replace(line, `"hidden":true`, `"sealed":true`, 1) },
		"an older reader": func(line string) string { return line },
	} {
		dir := t.TempDir()
		head := seed(t, dir, "thread", 0)
		s := open(t, dir, Options{FS: noSync{vfs.OS}})
		must(t, s.Delete(t.Context(), "thread"))
		closeStore(t, s)
		var out []byte
		for line := range strings.Lines(string(read(t, logOf(dir, "thread")))) {
			out = append(out, resealed(change(strings.TrimSuffix(line, "\n")))...)
		}
		write(t, logOf(dir, "thread"), out)
		s = open(t, dir, Options{FS: noSync{vfs.OS}})
		defer closeStore(t, s)
		want := segno.KindNewer
		if name == "an older reader" {
			want = segno.KindNotFound
		}
		for _, err := range everyCall(t, s, head) {
			wantKind(t, err, want)
		}
	}
}

// resealed returns a line with its correct checksum.
func resealed(line string) string {
	body := line[bodyAt:]
	return crcBegin + checksum([]byte(body)) + crcEnd + body + "\n"
}

// TestForkOfAnErasedThread erases a thread that another process has read. That process can neither
// fork the thread nor pin one of its checkpoints.
func TestForkOfAnErasedThread(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	defer closeStore(t, a)
	defer closeStore(t, b)
	ctx := t.Context()
	base := func(id string, parent segno.CommitID) segno.Commit {
		return segno.Commit{ID: segno.CommitID("base of " + id), Thread: segno.ThreadID(id), Parent: parent,
			Create: &segno.Thread{ID: segno.ThreadID(id)}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
	}
	for _, id := range []string{"erased", "live"} {
		if _, err := a.Commit(ctx, base(id, "")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Load(ctx, "base of erased", segno.Window{}); err != nil {
		t.Fatal(err)
	}
	if _, err := timeline.Purge(ctx, a, "erased", segno.CollectPolicy{}); err != nil {
		t.Fatal(err)
	}
	pin := segno.Commit{ID: "pin", Thread: "live", Expect: "base of live", Pin: &segno.Pin{Checkpoint: "base of erased", Name: "a pin"}}
	for _, c := range []segno.Commit{base("fork", "base of erased"), pin} {
		if _, err := b.Commit(ctx, c); segno.KindOf(err) != segno.KindNotFound {
			t.Errorf("commit %s: %v; want %s", c.ID, err, segno.KindNotFound)
		}
	}
}

// TestEraseCreatesNothing verifies that Erase of a store without deleted threads does not create or
// change a file.
func TestEraseCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	if done, err := s.Erase(t.Context(), segno.CollectPolicy{}); err != nil || done != (segno.Collection{}) {
		t.Fatalf("Erase of a store that does not exist: %+v, %v", done, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the directory of the store: %v; want none", err)
	}
}
