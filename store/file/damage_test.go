package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/google/go-cmp/cmp"
)

// lastLine returns the offset of the last line of a log.
func lastLine(log []byte) int { return bytes.LastIndexByte(log[:len(log)-1], '\n') + 1 }

// tornFiles returns the contents of a thread's torn files.
func tornFiles(t testing.TB, dir string, id segno.ThreadID) (all []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(logOf(dir, id)), "torn-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all = append(all, string(read(t, name)))
	}
	return all
}

// TestTornTail truncates the last record at each of its bytes, as a crash does, with and without zeros
// after it. The previous record must be the head. The next commit must follow that record, and keep
// the torn bytes in a file.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	before := seed(t, dir, "thread", 1)
	c := turnCommit(before, 1)
	changes := filepath.Join(dir, "changes")
	changesBefore := read(t, changes) // the line is written after the record
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	mustCommit(t, s, c)
	closeStore(t, s)
	whole := read(t, logOf(dir, "thread"))
	last := lastLine(whole)
	for n := range len(whole) - last {
		for _, zeros := range []int{0, 1, 700} {
			if n+zeros == 0 || zeros > 0 && n%8 > 0 {
				continue
			}
			write(t, logOf(dir, "thread"), append(slices.Clone(whole[:last+n]), make([]byte, zeros)...))
			write(t, changes, changesBefore)
			s := open(t, dir, Options{FS: noSync{vfs.OS}})
			if got := headOf(t, s, "thread"); got != before {
				t.Fatalf("%d bytes, %d zeros: the head is %v instead of %v", n, zeros, got, before)
			}
			closeStore(t, s)
			if n%32 == 0 {
				checkTorn(t, dir, last, before, c)
			}
		}
	}
}

// checkTorn commits to a log with a torn end while another store is open on it.
func checkTorn(t *testing.T, dir string, last int, before segno.Head, c segno.Commit) {
	t.Helper()
	torn := read(t, logOf(dir, "thread"))
	reader, writer := open(t, dir, Options{FS: noSync{vfs.OS}}), open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, reader)
	defer closeStore(t, writer)
	what := fmt.Sprintf("%d bytes, %d of them zero", len(torn)-last, bytes.Count(torn, []byte{0}))
	if got := headOf(t, reader, "thread"); got != before {
		t.Fatalf("%s: the head is %v instead of %v", what, got, before)
	}
	if !bytes.Equal(read(t, logOf(dir, "thread")), torn) {
		t.Fatalf("%s: a reader changed the log", what)
	}
	after := mustCommit(t, writer, c)
	if got := tornFiles(t, dir, "thread"); len(got) != 1 || got[0] != string(torn[last:]) {
		t.Fatalf("%s: kept are %q", what, got)
	}
	if got := headOf(t, reader, "thread"); got != after {
		t.Fatalf("%s: the head is %v instead of %v", what, got, after)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(logOf(dir, "thread")), "torn-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestATruncatedLogIsDamaged cuts or zeroes the end of a log, at each byte of its last two records,
// after all of them were acknowledged. The rest of the log looks like an interrupted write, but
// changes proves that it is not.
func TestATruncatedLogIsDamaged(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "thread", 3)
	whole := read(t, logOf(dir, "thread"))
	from := lastLine(whole[:lastLine(whole)])
	for n := from; n < len(whole); n++ {
		for _, zeros := range []bool{false, true} {
			damaged := slices.Clone(whole[:n])
			if zeros {
				damaged = append(damaged, make([]byte, len(whole)-n)...)
			}
			write(t, logOf(dir, "thread"), damaged)
			s := open(t, dir, Options{FS: noSync{vfs.OS}})
			_, err := s.Head(t.Context(), "thread")
			wantKind(t, err, segno.KindCorrupt)
			if n%64 == 0 || n == lastLine(whole) {
				for way, err := range everyCall(t, s, head) {
					if err == nil || segno.KindOf(err) != segno.KindCorrupt {
						t.Fatalf("byte %d, %s: %v", n, way, err)
					}
				}
				if ids, err := threadsOf(t, s); err == nil {
					t.Errorf("byte %d: listed are %q without an error", n, ids)
				}
			}
			closeStore(t, s)
			if !bytes.Equal(read(t, logOf(dir, "thread")), damaged) || len(tornFiles(t, dir, "thread")) > 0 {
				t.Fatalf("byte %d: the evidence was changed", n)
			}
		}
	}
}

// TestDamagedChangesHideNothing damages changes in every way. The intact log must be read, and the
// next commit must be announced.
func TestDamagedChangesHideNothing(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "thread", 3)
	name := filepath.Join(dir, "changes")
	whole := read(t, name)
	damages := [][]byte{nil, make([]byte, len(whole)), []byte("text")}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 4
		damages = append(damages, flipped, whole[:i])
	}
	for i, damaged := range damages {
		write(t, name, damaged)
		s := open(t, dir, Options{FS: noSync{vfs.OS}})
		if got := headOf(t, s, "thread"); got != head {
			t.Fatalf("%d: the head is %v instead of %v", i, got, head)
		}
		if i%50 == 0 {
			head = mustCommit(t, s, turnCommit(head, 10+i))
			log := read(t, logOf(dir, "thread"))
			write(t, logOf(dir, "thread"), log[:lastLine(log)])
			cold := open(t, dir, Options{FS: noSync{vfs.OS}})
			_, err := cold.Head(t.Context(), "thread")
			wantKind(t, err, segno.KindCorrupt)
			closeStore(t, cold)
			write(t, logOf(dir, "thread"), log)
		}
		closeStore(t, s)
	}
	must(t, os.Remove(name))
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	if got := headOf(t, s, "thread"); got != head {
		t.Errorf("the head is %v instead of %v", got, head)
	}
}

// everyCall makes each call that reads a thread or changes it.
func everyCall(t *testing.T, s *Store, head segno.Head) map[string]error {
	ctx := t.Context()
	_, headErr := s.Head(ctx, head.Thread)
	_, commitErr := s.Commit(ctx, turnCommit(head, 8))
	_, createErr := s.Commit(ctx, segno.Commit{ID: "anew", Thread: head.Thread, Create: &segno.Thread{ID: head.Thread}, Checkpoint: &segno.Checkpoint{}})
	_, leaseErr := s.Acquire(ctx, segno.Lease{Thread: head.Thread, Owner: "me", Expires: time.Now().Add(time.Hour)})
	_, heldErr := s.LeaseOf(ctx, head.Thread)
	all := map[string]error{"head": headErr, "commit": commitErr, "create": createErr, "acquire": leaseErr, "held": heldErr, "delete": s.Delete(ctx, head.Thread)}
	for _, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: head.Thread}) {
		all["checkpoints"] = err
	}
	for _, err := range s.Chain(ctx, head.Thread) {
		all["chain"] = err
	}
	return all
}

// TestBitFlips flips bits of each byte of a log. Every call must return that the log is damaged, and
// the log must not change.
func TestBitFlips(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "thread", 1)
	whole := read(t, logOf(dir, "thread"))
	last := lastLine(whole)
	for i := range whole {
		for bit := i % 4; bit < 8; bit += 4 {
			damaged := slices.Clone(whole)
			damaged[i] ^= 1 << bit
			write(t, logOf(dir, "thread"), damaged)
			s := open(t, dir, Options{FS: noSync{vfs.OS}})
			_, err := s.Head(t.Context(), "thread")
			if err == nil || segno.KindOf(err) != segno.KindCorrupt {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
			if i < last && !strings.Contains(err.Error(), "record 0 at byte 0 ") || i > last && !strings.Contains(err.Error(), fmt.Sprint("record 1 at byte ", last, " ")) {
				t.Fatalf("byte %d, bit %d: the error names another record: %v", i, bit, err)
			}
			if i%28 == 0 {
				for way, err := range everyCall(t, s, head) {
					if err == nil || segno.KindOf(err) != segno.KindCorrupt {
						t.Fatalf("byte %d, %s: %v", i, way, err)
					}
				}
			}
			closeStore(t, s)
			if !bytes.Equal(read(t, logOf(dir, "thread")), damaged) {
				t.Fatalf("byte %d, bit %d: the log was changed", i, bit)
			}
		}
	}
}

// TestDamagedLog changes a log in ways that no crash causes. The thread must count as damaged, not as
// new, and the other threads must be intact.
func TestDamagedLog(t *testing.T) {
	lines := func(log []byte) [][]byte { return bytes.SplitAfter(log, []byte("\n")) }
	for name, damage := range map[string]func(t *testing.T, log string){
		"a lost line": func(t *testing.T, log string) {
			l := lines(read(t, log))
			write(t, log, slices.Concat(l[0], l[2], l[3]))
		},
		"a line twice": func(t *testing.T, log string) {
			l := lines(read(t, log))
			write(t, log, slices.Concat(l[0], l[1], l[1], l[2], l[3]))
		},
		"lines in another order": func(t *testing.T, log string) {
			l := lines(read(t, log))
			write(t, log, slices.Concat(l[0], l[2], l[1], l[3]))
		},
		"an edited line": func(t *testing.T, log string) {
			write(t, log, bytes.Replace(read(t, log), []byte("hello"), []byte("HELLO"), 1))
		},
		"zeros in the middle": func(t *testing.T, log string) {
			data := read(t, log)
			clear(data[len(data)/2 : len(data)/2+64])
			write(t, log, data)
		},
		"text at the end":     func(t *testing.T, log string) { write(t, log, append(read(t, log), "text"...)) },
		"a line at the end":   func(t *testing.T, log string) { write(t, log, append(read(t, log), "{}\n"...)) },
		"an empty line":       func(t *testing.T, log string) { write(t, log, append(read(t, log), '\n')) },
		"another thread's":    func(t *testing.T, log string) { write(t, log, read(t, strings.Replace(log, "damaged", "other", 1))) },
		"an empty log":        func(t *testing.T, log string) { write(t, log, nil) },
		"no log":              func(t *testing.T, log string) { must(t, os.Remove(log)) },
		"a directory instead": func(t *testing.T, log string) { must(t, os.Remove(log)); must(t, os.Mkdir(log, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			head := seed(t, dir, "damaged", 3)
			seed(t, dir, "other", 1)
			warm := open(t, dir, Options{FS: noSync{vfs.OS}})
			defer closeStore(t, warm)
			damage(t, logOf(dir, "damaged"))
			cold := open(t, dir, Options{FS: noSync{vfs.OS}})
			defer closeStore(t, cold)
			before := filesOf(t, filepath.Dir(logOf(dir, "damaged")))
			for _, s := range []*Store{cold, warm} {
				for way, err := range everyCall(t, s, head) {
					if k := segno.KindOf(err); err == nil || k != segno.KindCorrupt && k != segno.KindIO {
						t.Errorf("%s: %v", way, err)
					}
				}
				ids, err := threadsOf(t, s)
				if !slices.Equal(ids, []segno.ThreadID{"other"}) || err == nil {
					t.Errorf("listed are %q, %v", ids, err)
				}
			}
			mustCommit(t, cold, turnCommit(headOf(t, warm, "other"), 5))
			if diff := cmp.Diff(before, filesOf(t, filepath.Dir(logOf(dir, "damaged")))); diff != "" {
				t.Errorf("the evidence was changed:\n%s", diff)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filesOf returns the contents of the files in a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	des, err := os.ReadDir(dir)
	must(t, err)
	for _, de := range des {
		if de.IsDir() {
			all[de.Name()] = "a directory"
			continue
		}
		all[de.Name()] = string(read(t, filepath.Join(dir, de.Name())))
	}
	return all
}

// TestDamageUnderAnOpenStore damages records that a process has already read.
func TestDamageUnderAnOpenStore(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "thread", 2)
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	headOf(t, s, "thread")
	log := read(t, logOf(dir, "thread"))
	write(t, logOf(dir, "thread"), bytes.Replace(log, []byte("hello"), []byte("HELLO"), 1))
	_, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
	wantKind(t, err, segno.KindCorrupt)
	write(t, logOf(dir, "thread"), log[:lastLine(log)])
	_, err = s.Head(t.Context(), "thread")
	wantKind(t, err, segno.KindCorrupt)
	must(t, os.RemoveAll(filepath.Dir(logOf(dir, "thread"))))
	_, err = s.Head(t.Context(), "thread")
	wantKind(t, err, segno.KindCorrupt)
}

// TestAForkOfADamagedThread reads the intact part of a thread. If a commit is not found, it may be in
// the damaged part.
func TestAForkOfADamagedThread(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "parent", 3)
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	fork := baseCommit("fork")
	fork.Parent = "parent turn 0"
	mustCommit(t, s, fork)
	closeStore(t, s)
	log := read(t, logOf(dir, "parent"))
	log[len(log)-9] ^= 1
	write(t, logOf(dir, "parent"), log)
	for _, cached := range []bool{true, false} {
		if !cached {
			must(t, os.Remove(filepath.Join(dir, "changes")))
		}
		s = open(t, dir, Options{FS: noSync{vfs.OS}})
		defer closeStore(t, s)
		line, err := s.Load(t.Context(), "base of fork", segno.Window{Entries: true})
		if err != nil || len(line.Commits) != 3 {
			t.Fatal(line, err)
		}
		_, err = s.Load(t.Context(), head.Head, segno.Window{})
		wantKind(t, err, segno.KindCorrupt)
		_, err = s.Load(t.Context(), "nobody", segno.Window{})
		wantKind(t, err, segno.KindCorrupt)
	}
}

// TestDamagedObject changes the files of objects, and then reads the objects.
func TestDamagedObject(t *testing.T) {
	s := open(t, t.TempDir(), Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	b := s.Objects().Batch()
	name, err := b.Put(t.Context(), []byte("data"))
	must(t, err)
	staged, err := b.Stage(t.Context())
	must(t, err)
	damaged := segno.Staged{Objects: []segno.Object{{Name: name, Size: 4, Data: []byte("DATA")}}}
	wantKind(t, s.Objects().Keep(t.Context(), damaged), segno.KindCorrupt)
	_, err = s.Objects().Get(t.Context(), segno.Hash{})
	wantKind(t, err, segno.KindNotFound)
	must(t, s.Objects().Keep(t.Context(), staged))
	for _, data := range []string{"dat", "", "DATA", "data\n"} {
		write(t, s.disk.objectFile(name), []byte(data))
		_, err := s.Objects().Get(t.Context(), name)
		wantKind(t, err, segno.KindCorrupt)
	}
	for _, pack := range []string{"../threads", "", ".", "..", "/etc", "a/b", strings.Repeat("A", 26)} {
		wantKind(t, s.Objects().Keep(t.Context(), segno.Staged{Packs: []string{pack}}), segno.KindInvalid)
	}
}

// TestDamagedWorkspace reads records of workspaces after changes to their files, and the state of a
// workspace that a damaged thread may have changed.
func TestDamagedWorkspace(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir, "thread", 1)
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	must(t, s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w", Path: "/w"}))
	whole := read(t, s.disk.workspaceFile("w"))
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		for _, data := range [][]byte{damaged, whole[:i]} {
			write(t, s.disk.workspaceFile("w"), data)
			if i == len(whole)-1 {
				continue // the line break does not matter here
			}
			_, err := s.Workspace(t.Context(), "w")
			wantKind(t, err, segno.KindCorrupt)
			for _, err := range s.FindWorkspaces(t.Context(), nil, 0, 0) {
				wantKind(t, err, segno.KindCorrupt)
			}
		}
	}
	write(t, s.disk.workspaceFile("w"), whole)
	log := read(t, logOf(dir, "thread"))
	log[len(log)-9] ^= 1
	write(t, logOf(dir, "thread"), log)
	cold := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, cold)
	must(t, os.Remove(filepath.Join(dir, "changes")))
	_, err := cold.Workspace(t.Context(), "w")
	wantKind(t, err, segno.KindCorrupt)
}
