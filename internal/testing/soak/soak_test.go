package soak_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
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

// noRun removes the flag -run of the run of this test.
func noRun(t *testing.T) {
	named := flag.Lookup("test.run").Value.String()
	t.Cleanup(func() { _ = flag.Set("test.run", named) })
	if err := flag.Set("test.run", ""); err != nil {
		t.Fatal(err)
	}
}

func TestAnEighthOfTheTestsIsDrawn(t *testing.T) {
	clear(t)
	noRun(t)
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
	if drawn < 5 || drawn > 25 {
		t.Errorf("%d of 100 seeds draw the test", drawn)
	}
	if err := flag.Set("test.run", "TestX"); err != nil {
		t.Fatal(err)
	}
	if !soak.IsDrawn(t) {
		t.Error("a test that -run names is not drawn")
	}
}

func TestSomeCasesAreDrawn(t *testing.T) {
	clear(t)
	noRun(t)
	all, seen := []string{"a", "b", "c", "d"}, map[string]bool{}
	if !slices.Equal(soak.Some(t, 2, all...), soak.Some(t, 2, all...)) {
		t.Error("one run draws different cases")
	}
	for seed := range 100 {
		t.Setenv("SEGNO_SEED", strconv.Itoa(seed))
		some := soak.Some(t, 2, all...)
		if len(some) != 2 || !slices.IsSorted(some) {
			t.Errorf("draws %v", some)
		}
		seen[strings.Join(some, "")] = true
	}
	if len(seen) != 6 {
		t.Errorf("100 seeds draw %v", seen)
	}
	if some := soak.Some(t, 9, all...); !slices.Equal(some, all) {
		t.Errorf("9 of 4 cases are %v", some)
	}
	if err := flag.Set("test.run", "TestX"); err != nil {
		t.Fatal(err)
	}
	if some := soak.Some(t, 2, all...); !slices.Equal(some, all) {
		t.Errorf("a test that -run names has the cases %v", some)
	}
	noRun(t)
	t.Setenv("SEGNO_SOAK", "1")
	if some := soak.Some(t, 2, all...); !slices.Equal(some, all) {
		t.Errorf("a whole run has the cases %v", some)
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

func TestAShortRunDrawsAnEighth(t *testing.T) {
	clear(t)
	var text strings.Builder
	for n := range 200 {
		fmt.Fprintf(&text, "func TestCase%d(t *testing.T) {}\n", n)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("case_test.go", []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"test.short", "test.run", "test.skip"} {
		was := flag.Lookup(name).Value.String()
		t.Cleanup(func() { _ = flag.Set(name, was) })
	}
	skipped := func(short, run string) int {
		for name, value := range map[string]string{"test.short": short, "test.run": run, "test.skip": ""} {
			if err := flag.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		soak.DrawIfShort()
		return strings.Count(flag.Lookup("test.skip").Value.String(), "TestCase")
	}
	if n := skipped("true", ""); n < 150 || n > 195 {
		t.Errorf("a short run skips %d of 200 tests", n)
	}
	if n := skipped("false", "") + skipped("true", "TestCase7"); n != 0 {
		t.Errorf("a run that is not short, or that names a test, skips %d", n)
	}
	t.Setenv("SEGNO_SOAK", "1")
	if n := skipped("true", ""); n != 0 {
		t.Errorf("a whole run skips %d", n)
	}
}
