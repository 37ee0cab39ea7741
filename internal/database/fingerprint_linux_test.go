package database_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
)

// nobody is the user id of the unprivileged user.
const nobody = 65534

// A save of an unchanged database reads only a few pages, for every user and in every journal mode, of which a run tries two
// pairs, while a program has the database open.
func TestUnchangedSaveReadsLittle(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	if dir := os.Getenv("SEGNO_TEST_SAVE_IN"); dir != "" {
		printReads(t, dir)
		return
	}
	users := []int{os.Getuid()}
	if users[0] == 0 {
		users = append(users, nobody)
	}
	type kind struct {
		mode string
		user int
	}
	var kinds []kind
	for _, mode := range []string{"wal", "delete", "persist", "truncate"} {
		for _, user := range users {
			kinds = append(kinds, kind{mode, user})
		}
	}
	for _, k := range soak.Some(t, 2, kinds...) {
		t.Run(fmt.Sprintf("%s/%d", k.mode, k.user), func(t *testing.T) {
			f := newFixture(t)
			dir, err := os.MkdirTemp("", "segno-reads") // other users cannot enter the directory of the test
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			f.dir, f.file = dir, filepath.Join(dir, "dev.db")
			client := f.open()
			f.exec(client, "PRAGMA journal_mode="+k.mode, "PRAGMA wal_autocheckpoint=0", "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)",
				"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 5000) INSERT INTO t SELECT i, randomblob(3900) FROM c",
				"UPDATE t SET x = x WHERE id < 100")
			for _, name := range []string{"", "dev.db", "dev.db-wal", "dev.db-shm", "dev.db-journal"} {
				if err := os.Lchown(filepath.Join(dir, name), k.user, k.user); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(os.Args[0], "-test.run=TestUnchangedSaveReadsLittle$", "-test.v")
			cmd.Env = append(os.Environ(), "SEGNO_TEST_SAVE_IN="+dir, fmt.Sprint("SEGNO_TEST_SAVE_AS=", k.user))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var first, second int
			_, text, _ := strings.Cut(string(out), "reads: ")
			if _, err := fmt.Sscan(text, &first, &second); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%d bytes, then %d", first, second)
			if first < 5000*4096 {
				t.Errorf("the first save read %d bytes: it has not read the pages", first)
			}
			if second > 100_000 {
				t.Errorf("the save of the unchanged database read %d bytes", second)
			}
		})
	}
}

// printReads saves a database twice as another user, and prints how many bytes each save read.
func printReads(t *testing.T, dir string) {
	var uid int
	if _, err := fmt.Sscan(os.Getenv("SEGNO_TEST_SAVE_AS"), &uid); err != nil {
		t.Fatal(err)
	}
	if uid != os.Getuid() {
		if err := syscall.Setgid(uid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setuid(uid); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // else /proc/self belongs to root
			t.Fatal(err)
		}
	}
	store := memory.New(time.Now)
	defer store.Close()
	f := &fixture{TB: t, dir: dir, file: filepath.Join(dir, "dev.db"), objects: store.Objects(), now: time.Now().Add(time.Hour), fs: vfs.OS}
	w := f.attached(true)
	var reads []int
	for range 2 {
		before := bytesRead(t)
		f.snapshot(w)
		reads = append(reads, bytesRead(t)-before)
	}
	fmt.Println("reads:", reads[0], reads[1])
}

// bytesRead returns the number of bytes that this process has read from files.
func bytesRead(t *testing.T) (n int) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "rchar: ")
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A program that keeps the database locked increments the change counter only once, and keeps the index of the log in
// its memory. A change by the program must still be noticed: the database is then unread, and not saved in its earlier
// state.
func TestChangeUnderExclusiveLockIsNoticed(t *testing.T) {
	t.Parallel()
	for _, mode := range soak.Some(t, 1, "delete", "persist", "wal") {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.sql("PRAGMA journal_mode="+mode, "CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
			w := f.attached(true)
			one := f.document(f.snapshot(w))
			if strings.Contains(one, "unread") || f.document(f.snapshot(w)) != one {
				t.Fatalf("the database was not read: %s", one)
			}
			client := f.open()
			f.exec(client, "PRAGMA locking_mode=exclusive", "UPDATE t SET x = 2", "UPDATE t SET x = 3")
			if doc := f.document(f.snapshot(w)); !strings.Contains(doc, "locked") {
				t.Errorf("the state of a locked database is %s", doc)
			}
		})
	}
}
