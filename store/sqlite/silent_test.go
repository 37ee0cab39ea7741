package sqlite

import (
	"bytes"
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
		data, what := spoil(slices.Clone(whole), n)
		isNotSilent(t, trial, data, what)
	}
}

// TestNoDamageToThreadsIsSilent flips bits in the page of the threads, whose rows say more
// than others in the clear: each bit under SEGNO_SOAK.
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
		isNotSilent(t, trial, data, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8))
	}
}

// trialDatabase makes a store for a trial and returns its database.
func trialDatabase(t *testing.T) (*storetest.Trial, []byte) {
	t.Helper()
	dir := t.TempDir()
	s := openIn(t, dir, Options{})
	trial := storetest.NewTrial(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return trial, readFile(t, filepath.Join(dir, databaseName))
}

// isNotSilent opens a damaged database and reads it.
func isNotSilent(t *testing.T, trial *storetest.Trial, data []byte, what string) {
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

// spoil damages a database in the n-th way.
func spoil(data []byte, n int) (_ []byte, what string) {
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

// TestADamagedWorkspaceIsNotSilent flips a bit in the id of a workspace's row.
func TestADamagedWorkspaceIsNotSilent(t *testing.T) {
	trial, whole := trialDatabase(t)
	const row = "workspace/work"
	if bytes.Count(whole, []byte(row)) != 1 {
		t.Fatalf("the database has %q %d times", row, bytes.Count(whole, []byte(row)))
	}
	data := slices.Clone(whole)
	data[bytes.Index(whole, []byte(row))] ^= 2
	isNotSilent(t, trial, data, "the workspace's id")
}

// TestALostLogIsNotSilent opens what a killed process left, without the log.
func TestALostLogIsNotSilent(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	s := openIn(t, from, Options{})
	defer s.Close()
	trial := storetest.NewTrial(t, s)
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
