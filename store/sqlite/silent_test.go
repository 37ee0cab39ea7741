package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/storetest"
)

// TestNoDamageIsSilent damages a database at random places: some bytes, a page, or the end of a page or of the file.
// Each later read returns the written data, or an error of a kind other than [segno.KindNotFound].
func TestNoDamageIsSilent(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	trial := newDamageTrial(t, openIn(t, t.TempDir(), Options{}))
	seeds := soak.Seeds(t, 60, 10_000)
	trial.readAll(t, len(seeds), func(n int) ([]byte, string) { return damage(slices.Clone(trial.whole), seeds[n]) })
}

// TestNoFlippedBitIsSilent flips one bit of a database, in the header of a page or in any byte. The header of a page
// has the positions of its rows. If suites are tried whole, the test tries all bits of all headers, and at least 20,000
// bits.
func TestNoFlippedBitIsSilent(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	trial := newDamageTrial(t, openIn(t, t.TempDir(), Options{}))
	var bits []int
	for page := 0; page < len(trial.whole); page += pageSize {
		begin, size := pageHeader(trial.whole[page : page+pageSize])
		for bit := range 8 * size {
			bits = append(bits, 8*(page+begin)+bit)
		}
	}
	rnd, headers, flips := rand.New(rand.NewPCG(soak.Seed(t), 1)), len(bits), max(len(bits), 20_000)
	for len(bits) < flips {
		bits = append(bits, rnd.IntN(8*len(trial.whole)))
	}
	t.Logf("%d bits, of which %d are in headers of %d pages", len(bits), headers, len(trial.whole)/pageSize)
	if soak.IsWhole() {
		bits = soak.Mine(t, bits)
	} else {
		rnd.Shuffle(len(bits), func(i, j int) { bits[i], bits[j] = bits[j], bits[i] })
		bits = bits[:150]
	}
	trial.readAll(t, len(bits), func(n int) ([]byte, string) {
		data, bit := slices.Clone(trial.whole), bits[n]
		data[bit/8] ^= 1 << (bit % 8)
		return data, fmt.Sprintf("bit %d of byte %d in page %d", bit%8, bit/8%pageSize, bit/8/pageSize+1)
	})
}

// pageHeader returns the offset of a page's header, and its size including the positions of the rows. If the page is
// not a node of a tree, the header is the number of the next page.
func pageHeader(page []byte) (begin, size int) {
	if bytes.HasPrefix(page, []byte("SQLite format 3")) {
		begin = 100
	}
	at := page[begin:]
	rows := 2 * int(binary.BigEndian.Uint16(at[3:]))
	switch at[0] {
	case 2, 5:
		return begin, 12 + rows
	case 10, 13:
		return begin, 8 + rows
	}
	return begin, 4
}

// damageTrial is a trial with many threads, and the database to damage.
type damageTrial struct {
	*storetest.DamageTrial

	whole []byte
	lists []string // the result of readLists for the undamaged database
}

// newDamageTrial fills a store for a trial, and closes it.
func newDamageTrial(t *testing.T, s *Store) *damageTrial {
	t.Helper()
	for i := range 60 {
		id := segno.ThreadID(fmt.Sprint("listed ", i))
		c := segno.Commit{ID: segno.CommitID(id), Thread: id, Create: &segno.Thread{ID: id, Title: fmt.Sprint("title ", i)},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Agent: "test"},
			Link:       &segno.Link{Agent: "test", Session: segno.SessionID(fmt.Sprint("session ", i)), Start: time.Unix(1, 0)}}
		switch i % 3 {
		case 0:
			c.Checkpoint.Kind = segno.CheckpointTurn
		case 1:
			question, err := segno.Interrupt{ID: "question", Tool: "tool"}.Entry()
			if err != nil {
				t.Fatal(err)
			}
			c.Entries = []segno.Entry{question}
		}
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	trial := &damageTrial{DamageTrial: storetest.NewDamageTrial(t, s)}
	trial.lists = readLists(t.Context(), s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	trial.whole = readFile(t, s.Path())
	return trial
}

// readLists returns the lists of the threads in any phase and in each single phase. Each list is JSON or the kind of an
// error.
func readLists(ctx context.Context, s *Store) (lists []string) {
	for p := segno.PhaseUnknown; p <= segno.PhaseWaiting; p++ {
		var ids []string
		for thread, err := range s.Threads(ctx, segno.ThreadQuery{Phase: p}) {
			if err != nil {
				ids = []string{segno.KindOf(err).String()}
				break
			}
			ids = append(ids, string(thread.ID))
		}
		lists = append(lists, fmt.Sprintf("threads in phase %d: %d %q", p, len(ids), ids))
	}
	var links []string
	if err := s.EachLink(ctx, func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool) {
		links = append(links, fmt.Sprint(thread, seq, l.Session, isHead))
	}); err != nil {
		links = []string{segno.KindOf(err).String()}
	}
	return append(lists, fmt.Sprintf("links: %d %q", len(links), links))
}

// readAll opens and reads the damaged databases that damage returns for the numbers below count.
func (d *damageTrial) readAll(t *testing.T, count int, damage func(n int) (data []byte, what string)) {
	t.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		dir := t.TempDir()
		group.Go(func() {
			for n := next.Add(1) - 1; n < int64(count); n = next.Add(1) - 1 {
				data, what := damage(int(n))
				d.read(t, dir, data, what)
			}
		})
	}
	group.Wait()
}

// read opens and reads a damaged database in the directory dir.
func (d *damageTrial) read(t *testing.T, dir string, data []byte, what string) {
	file := filepath.Join(dir, databaseName)
	for _, end := range []string{"-wal", "-shm"} {
		if err := os.Remove(file + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
			return
		}
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Error(err)
		return
	}
	s, err := openDir(t.Context(), dir, Options{})
	if err != nil {
		if kind := segno.KindOf(err); kind != segno.KindCorrupt && kind != segno.KindNewer {
			t.Errorf("%s: open: %v", what, err)
		}
		return
	}
	defer s.Close() // ignore the error, because closing a damaged database may fail
	if silent := d.Silent(t.Context(), s); silent != "" {
		t.Errorf("%s: %s", what, silent)
	}
	for i, got := range readLists(t.Context(), s) {
		if got != d.lists[i] && !strings.Contains(got, fmt.Sprintf("1 [%q]", segno.KindCorrupt)) {
			t.Errorf("%s: read %.150q; want %.150q", what, got, d.lists[i])
		}
	}
}

// damage damages a database in the way that a seed chooses.
func damage(data []byte, seed uint64) (_ []byte, what string) {
	const page = pageSize
	rnd := rand.New(rand.NewPCG(seed, 0))
	switch seed % 4 {
	case 0:
		at := rnd.IntN(len(data)/page) * page
		begin := rnd.IntN(page)
		noise := data[at+begin : at+min(page, begin+1+rnd.IntN(64))]
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
		}
		return data, fmt.Sprintf("seed %d: %d bytes from %d in page %d", seed, len(noise), begin, at/page+1)
	case 1:
		const sector = 512
		at := (rnd.IntN(len(data)/page)+1)*page - sector
		clear(data[at : at+sector])
		return data, fmt.Sprintf("seed %d: the end of page %d", seed, at/page+1)
	case 2:
		at := rnd.IntN(len(data)/page) * page
		clear(data[at : at+page])
		return data, fmt.Sprintf("seed %d: page %d", seed, at/page+1)
	}
	at := rnd.IntN(len(data))
	return data[:at], fmt.Sprintf("seed %d: the end from byte %d of page %d", seed, at%page, at/page+1)
}

// TestADamagedWorkspaceIsNotSilent flips a bit in the id of a workspace in a store without checksums of pages. The
// places are the row of the workspace, the index of ids, and the row and the index of an operation on the workspace.
func TestADamagedWorkspaceIsNotSilent(t *testing.T) {
	file := filepath.Join(t.TempDir(), databaseName)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := OpenDB(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	trial := newDamageTrial(t, s)
	if _, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	trial.whole = readFile(t, file)
	for _, table := range []string{"workspaces", "sqlite_autoindex_workspaces_1", "operations", "operations_workspace"} {
		var root int
		if err := db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_master WHERE name = ?", table).Scan(&root); err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(trial.whole)
		page := data[(root-1)*pageSize : root*pageSize]
		at := bytes.Index(page, []byte("workspace"))
		if at < 0 {
			t.Fatalf("the page of %s does not have the id", table)
		}
		page[at] ^= 2
		trial.read(t, t.TempDir(), data, table)
	}
}

// TestALostLogIsNotSilent opens the files that a killed process left, without the WAL.
func TestALostLogIsNotSilent(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	s := openIn(t, from, Options{})
	defer s.Close()
	trial := storetest.NewDamageTrial(t, s)
	for _, end := range []string{"", "-shm", "-wal"} {
		writeFile(t, filepath.Join(dir, databaseName+end), readFile(t, filepath.Join(from, databaseName+end)))
	}
	log := filepath.Join(dir, databaseName+"-wal")
	whole := readFile(t, log)
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := openDir(t.Context(), dir, Options{ReadOnly: readOnly})
		wantKind(t, err, segno.KindCorrupt)
	}
	writeFile(t, log, whole)
	s = openIn(t, dir, Options{})
	defer s.Close()
	if silent := trial.Silent(t.Context(), s); silent != "" {
		t.Error(silent)
	}
}
