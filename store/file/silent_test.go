package file

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

// TestNoDamageIsSilent damages a file of a store at random: a bit, a page, the end, or all of
// it. Each later read must return the data that was written, or an error of another kind than
// [segno.KindNotFound]. Only an object or a workspace whose whole file is missing may be not
// found: see the package comment.
func TestNoDamageIsSilent(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	origin := t.TempDir()
	s := open(t, origin, Options{FS: noSync{vfs.OS}})
	trial := storetest.NewDamageTrial(t, s)
	closeStore(t, s)
	var names []string
	must(t, filepath.WalkDir(origin, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			names = append(names, path)
		}
		return err
	}))
	for _, seed := range soak.Seeds(t, 60, 10_000) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		name := names[rnd.IntN(len(names))]
		whole := read(t, name)
		data, at, what := slices.Clone(whole), rnd.IntN(len(whole)), ""
		switch seed % 4 {
		case 0:
			what = "a bit"
			data[at] ^= 1 << rnd.IntN(8)
		case 1:
			what = "a page"
			clear(data[at/4096*4096 : min(at/4096*4096+4096, len(data))])
		case 2:
			what = "the end"
			data = data[:at]
		case 3:
			if dir := filepath.Base(filepath.Dir(name)); dir == "workspaces" || strings.Contains(name, "/objects/") {
				continue
			}
			what, data = "the file", nil
		}
		what = fmt.Sprintf("seed %d: %s of %s at %d", seed, what, name[len(origin)+1:], at)
		must(t, os.Remove(name))
		if data != nil {
			write(t, name, data)
		}
		s, err := Open(t.Context(), origin, Options{FS: noSync{vfs.OS}})
		switch {
		case err == nil:
			if silent := trial.Silent(t.Context(), s); silent != "" {
				t.Errorf("%s: %s", what, silent)
			}
			closeStore(t, s)
		case segno.KindOf(err) == segno.KindNotFound:
			t.Errorf("%s: open: %v", what, err)
		}
		write(t, name, whole)
	}
}
