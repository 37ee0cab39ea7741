package sqlite

import (
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
	origin := t.TempDir()
	s := openIn(t, origin, Options{})
	trial := storetest.NewTrial(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(origin, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	damages := 120
	if os.Getenv("SEGNO_SOAK") != "" {
		damages = 5000
	}
	for n := range damages {
		data, what := spoil(slices.Clone(whole), n)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, databaseName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenDir(t.Context(), dir, Options{})
		if err != nil {
			if segno.KindOf(err) == segno.KindNotFound {
				t.Errorf("%s: open: %v", what, err)
			}
			continue
		}
		if silent := trial.Silent(t.Context(), s); silent != "" {
			t.Errorf("%s: %s", what, silent)
		}
		_ = s.Close() // a damaged database may not close
	}
}

// spoil damages a database in the n-th way.
func spoil(data []byte, n int) (_ []byte, what string) {
	const page = 4096
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
