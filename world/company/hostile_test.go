package company_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/world"
	"github.com/dalsegno/segno/world/company"
)

var (
	sumMember = regexp.MustCompile(`"sum":"[0-9a-f]*"`)
	values    = regexp.MustCompile(`[:\[,](-?[0-9]+|"[^"]*"|\[\]|\{\})`)
)

// forge replaces a few values of a document and corrects its sum, as an attacker would.
func forge(r *rand.Rand, document []byte) []byte {
	forged := sumMember.ReplaceAll(document, []byte(`"sum":""`))
	for range 1 + r.IntN(3) {
		all := values.FindAllSubmatchIndex(forged, -1)
		at := all[r.IntN(len(all))]
		other := []string{"-1", "0", "7", "21601", "4611686018427387904", "-9223372036854775808", `""`, `"Ada"`, `"gold"`, "null", "[]", "{}"}
		forged = slices.Concat(forged[:at[2]], []byte(other[r.IntN(len(other))]), forged[at[3]:])
	}
	sum := segno.HashOf(sumMember.ReplaceAll(forged, []byte(`"sum":""`)))
	return sumMember.ReplaceAll(forged, []byte(`"sum":"`+sum.String()+`"`))
}

// TestForgedDocuments loads documents with a correct sum and impossible values. Each is refused, or is a
// world in which the game can continue.
func TestForgedDocuments(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	ctx := t.Context()
	w, names := company.New(4), []string{"Ada", "Bo", "Cy"}
	for _, name := range names {
		if err := w.Join(ctx, name, name); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		if err := world.Play(ctx, w, names, company.Player(), nil); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := w.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	seeds := soak.Seeds(t, 300, 20_000)
	for _, seed := range seeds {
		document := forge(rand.New(rand.NewPCG(seed, 0)), saved.Document)
		again := company.New(1)
		if err := again.Load(ctx, document); err != nil {
			continue
		}
		loaded++
		for range 8 {
			if err := world.Play(ctx, again, names, company.Player(), nil); err != nil {
				break // an agent may be missing
			}
		}
		if _, err := again.Snapshot(ctx); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err := company.Story()(document); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%d documents of %d were possible worlds", loaded, len(seeds))
	if loaded == 0 && len(seeds) >= 300 {
		t.Error("no forged document loads, so nothing was played")
	}
}
