package sqlite

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

// TestNoDamageIsSilent damages a database at random: a bit, a page, the end. Each later read
// returns the data that was written, or an error of another kind than [segno.KindNotFound].
// Under SEGNO_SOAK there are 5,000 damages.
func TestNoDamageIsSilent(t *testing.T) {
	trial, whole := trialDatabase(t)
	damages := 120
	if os.Getenv("SEGNO_SOAK") != "" {
		damages = 5000
	}
	for n := range damages {
		data, what := damage(slices.Clone(whole), n)
		readDamaged(t, trial, data, what)
	}
}

// TestNoDamageToThreadsIsSilent flips bits in the page of the threads: their rows have more unencrypted
// columns than others: each bit under SEGNO_SOAK.
func TestNoDamageToThreadsIsSilent(t *testing.T) {
	trial, whole := trialDatabase(t)
	const page = pageSize
	begin := bytes.Index(whole, []byte("the owner of the lease")) / page * page
	step := 211
	if os.Getenv("SEGNO_SOAK") != "" {
		step = 1
	}
	for bit := 0; bit < 8*page; bit += step {
		data := slices.Clone(whole)
		data[begin+bit/8] ^= 1 << (bit % 8)
		readDamaged(t, trial, data, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8))
	}
}

// trialDatabase creates a store for a trial and returns its database.
func trialDatabase(t *testing.T) (*storetest.DamageTrial, []byte) {
	t.Helper()
	dir := t.TempDir()
	s := openIn(t, dir, Options{})
	trial := storetest.NewDamageTrial(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return trial, readFile(t, filepath.Join(dir, databaseName))
}

// readDamaged opens and reads a damaged database.
func readDamaged(t *testing.T, trial *storetest.DamageTrial, data []byte, what string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, databaseName), data)
	s, err := openDir(t.Context(), dir, Options{})
	if err != nil {
		if segno.KindOf(err) == segno.KindNotFound {
			t.Errorf("%s: open: %v", what, err)
		}
		return
	}
	if silent := trial.Silent(t.Context(), s); silent != "" {
		t.Errorf("%s: %s", what, silent)
	}
	_ = s.Close() // a damaged database may not close
}

// damage damages a database in the n-th way.
func damage(data []byte, n int) (_ []byte, what string) {
	const page = pageSize
	rnd := rand.New(rand.NewPCG(uint64(n), 3))
	switch n % 4 {
	case 0, 1:
		at, bit := rnd.IntN(len(data)), rnd.IntN(8)
		data[at] ^= 1 << bit
		return data, fmt.Sprintf("bit %d of byte %d in page %d", bit, at%page, at/page+1)
	case 2:
		at := rnd.IntN(len(data)/page) * page
		clear(data[at : at+page])
		return data, fmt.Sprintf("page %d", at/page+1)
	}
	at := rnd.IntN(len(data))
	return data[:at], fmt.Sprintf("the end from byte %d of page %d", at%page, at/page+1)
}

// TestADamagedWorkspaceIsNotSilent flips a bit in the id of a workspace: in its row, in the index of the ids, and
// in the row and the index of an operation on the workspace.
func TestADamagedWorkspaceIsNotSilent(t *testing.T) {
	trial, whole := trialDatabase(t)
	file := filepath.Join(t.TempDir(), databaseName)
	writeFile(t, file, whole)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"workspaces", "sqlite_autoindex_workspaces_1", "operations", "operations_workspace"} {
		var root int
		if err := db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_master WHERE name = ?", table).Scan(&root); err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(whole)
		page := data[(root-1)*pageSize : root*pageSize]
		at := bytes.Index(page, []byte("workspace"))
		if at < 0 {
			t.Fatalf("the page of %s does not have the id", table)
		}
		page[at] ^= 2
		readDamaged(t, trial, data, table)
	}
}

// TestALostLogIsNotSilent opens the files of a killed process without the log.
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
