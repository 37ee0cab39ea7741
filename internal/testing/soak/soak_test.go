package soak_test

import (
	"flag"
	"slices"
	"strconv"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// clear removes the variables of the run of this test.
func clear(t *testing.T) {
	for _, name := range []string{"SEGNO_SOAK", "SEGNO_SEED", "SEGNO_COUNT", "SEGNO_PART"} {
		t.Setenv(name, "")
	}
}

func TestASampleHasANewSeed(t *testing.T) {
	clear(t)
	first, second := soak.Seeds(t, 3, 1000), soak.Seeds(t, 3, 1000)
	if len(first) != 3 || slices.Equal(first, second) {
		t.Errorf("the seeds are %v and %v", first, second)
	}
	t.Setenv("SEGNO_SEED", "42")
	if seeds := soak.Seeds(t, 3, 1000); !slices.Equal(seeds, []uint64{42, 43, 44}) || soak.Seed(t) != 42 {
		t.Errorf("the seeds are %v", seeds)
	}
	t.Setenv("SEGNO_COUNT", "1")
	if seeds := soak.Seeds(t, 3, 1000); !slices.Equal(seeds, []uint64{42}) {
		t.Errorf("the seeds are %v", seeds)
	}
}

func TestAThirdOfTheTestsIsDrawn(t *testing.T) {
	clear(t)
	named := flag.Lookup("test.run").Value.String()
	t.Cleanup(func() { _ = flag.Set("test.run", named) })
	if err := flag.Set("test.run", ""); err != nil {
		t.Fatal(err)
	}
	if soak.IsDrawn(t) != soak.IsDrawn(t) {
		t.Error("one run draws a test and does not draw it")
	}
	drawn := 0
	for seed := range 100 {
		t.Setenv("SEGNO_SEED", strconv.Itoa(seed))
		if soak.IsDrawn(t) {
			drawn++
		}
	}
	if drawn < 20 || drawn > 50 {
		t.Errorf("%d of 100 seeds draw the test", drawn)
	}
	if err := flag.Set("test.run", "TestX"); err != nil {
		t.Fatal(err)
	}
	if !soak.IsDrawn(t) {
		t.Error("a test that -run names is not drawn")
	}
}

func TestPartsAreTheWhole(t *testing.T) {
	clear(t)
	t.Setenv("SEGNO_SOAK", "1")
	t.Setenv("SEGNO_SEED", "100")
	whole, all := soak.Seeds(t, 3, 10), soak.Mine(t, []string{"a", "b", "c", "d"})
	var seeds []uint64
	var mine []string
	own, count := map[uint64]bool{}, 0
	for _, part := range []string{"0/3", "1/3", "2/3"} {
		t.Setenv("SEGNO_PART", part)
		seeds = append(seeds, soak.Seeds(t, 3, 10)...)
		mine = append(mine, soak.Mine(t, []string{"a", "b", "c", "d"})...)
		count += soak.Count(t, 3, 10)
		own[soak.Seed(t)] = true
	}
	slices.Sort(mine)
	if len(whole) != 10 || count != 10 || !slices.Equal(seeds, whole) || len(all) != 4 || !slices.Equal(mine, all) || len(own) != 3 {
		t.Errorf("the parts have the seeds %v, %v, %d cases, %d seeds of suites", seeds, mine, count, len(own))
	}
}
