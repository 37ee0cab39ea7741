// Package soak decides which part of a large suite a run tries, and with which seed. A test with random cases or many
// cases calls it, and does not read the environment itself.
//
// By default a suite tries a sample, with a new seed at each run. Each suite logs its seed in one form, SEGNO_SEED=123,
// which go test prints if the suite fails and with -v. These variables change the run:
//
//	SEGNO_SOAK=1       suites are tried whole
//	SEGNO_SEED=123     the seed of every suite; cases of a list of seeds begin with it
//	SEGNO_COUNT=1      how many cases every suite tries
//	SEGNO_PART=2/10    with SEGNO_SOAK: only the third of ten equal parts (parts begin at 0)
//
// A case of [Seeds] has its seed as its only input, so SEGNO_SEED and SEGNO_COUNT=1 repeat it alone. The main program in
// internal/testing/soak/campaign, which make soak runs, sets the variables for each part of a campaign.
package soak

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// IsWhole reports whether suites are tried whole.
func IsWhole() bool { return os.Getenv("SEGNO_SOAK") != "" }

// Count returns how many cases a suite tries: sample by default, and this part's share of whole if suites are tried whole. It
// logs the count for the main program, which adds the counts up.
func Count(t testing.TB, sample, whole int) int {
	t.Helper()
	first, end := share(t, sample, whole)
	t.Logf("%d cases", end-first)
	return end - first
}

// Seed returns the seed of a suite, and logs it. Each part of a run has a different seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := base(t)
	part, _ := part(t)
	seed += uint64(part)
	t.Logf("SEGNO_SEED=%d", seed)
	return seed
}

// Seeds returns one seed for each case of a suite, in ascending order without gaps, and logs the first: as many as [Count]
// returns. The parts of a run divide the seeds among them.
func Seeds(t testing.TB, sample, whole int) []uint64 {
	t.Helper()
	seed := base(t)
	first, end := share(t, sample, whole)
	seeds := make([]uint64, 0, end-first)
	for n := first; n < end; n++ {
		seeds = append(seeds, seed+uint64(n))
	}
	t.Logf("SEGNO_SEED=%d: %d cases", seed+uint64(first), len(seeds))
	return seeds
}

// Mine returns the cases for this part of a run from a list of all cases, such as the operations of a write, and logs
// their count. If the run has no parts, it returns all.
func Mine[T any](t testing.TB, all []T) []T {
	t.Helper()
	part, parts := part(t)
	var mine []T
	for n := part; n < len(all); n += parts {
		mine = append(mine, all[n])
	}
	t.Logf("%d cases", len(mine))
	return mine
}

// IsNamed reports whether suites are tried whole or the flag -run names tests. A test that takes minutes runs only then.
func IsNamed() bool { return IsWhole() || isSet("test.run") }

// IsDrawn reports whether this run tries a test that runs real programs for seconds: one of eight by default, another choice
// at each run, and every one if suites are tried whole or if the flag -run names tests. It logs the seed of the draw.
func IsDrawn(t testing.TB) bool {
	t.Helper()
	if IsNamed() {
		return true
	}
	seed := drawSeed()
	drawn := hashOf(seed, t.Name())%8 == 0
	t.Logf("SEGNO_SEED=%s: drawn: %v", seed, drawn)
	return drawn
}

// OneOf returns the share of a list of cases that this run tries, for a test whose cases are programs: one of usual, one of short with
// -short, and 1, which is all, if suites are tried whole or if the flag -run names tests.
func OneOf(t testing.TB, usual, short int) int {
	t.Helper()
	switch {
	case IsNamed():
		return 1
	case testing.Short():
		return short
	}
	return usual
}

// Some returns n cases of a list, another choice at each run, in the order of the list; and all if suites are tried whole or if
// the flag -run names tests. It is for a few cases that each take seconds. It logs the seed of the draw.
func Some[T any](t testing.TB, n int, all ...T) []T {
	t.Helper()
	if IsNamed() || n >= len(all) {
		return all
	}
	seed := drawSeed()
	drawn := rand.New(rand.NewPCG(hashOf(seed, t.Name()), 0)).Perm(len(all))[:n]
	slices.Sort(drawn)
	var some []T
	for _, at := range drawn {
		some = append(some, all[at])
	}
	t.Logf("SEGNO_SEED=%s: draws the cases %v of %d", seed, drawn, len(all))
	return some
}

// isSet reports whether a flag with a text has one.
func isSet(name string) bool { return flag.Lookup(name).Value.String() != "" }

// drawSeed returns the seed of draws, which all tests of a process share.
func drawSeed() string {
	if seed := os.Getenv("SEGNO_SEED"); seed != "" {
		return seed
	}
	// go test builds each program in a new directory.
	return strconv.FormatUint(hashOf(os.Args[0], strconv.Itoa(os.Getpid()))%1_000_000_000, 10)
}

// Versions returns the last of the versions of a program, and before it the others if the test [IsDrawn].
func Versions[V any](t testing.TB, all []V) []V {
	t.Helper()
	if IsDrawn(t) {
		return all
	}
	return all[len(all)-1:]
}

// Rapid sets how many cases the tests of pgregory.net/rapid try until the end of t, in the same way as [Count], and their seed
// if SEGNO_SEED is set. Flags of the command line take precedence. rapid logs the count and its own seed.
func Rapid(t testing.TB, sample, whole int) {
	t.Helper()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	first, end := share(t, sample, whole)
	values := map[string]string{"rapid.checks": strconv.Itoa(end - first)}
	if os.Getenv("SEGNO_SEED") != "" {
		values["rapid.seed"] = strconv.FormatUint(RapidSeed(Seed(t)), 10)
	}
	for name, value := range values {
		if given[name] {
			continue
		}
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
}

// RapidSeed derives rapid's seed from a seed. It spreads the seeds, because rapid draws the seeds of its cases near its
// first seed, so that neighbours would repeat each other's cases.
func RapidSeed(seed uint64) uint64 { return hashOf(strconv.FormatUint(seed, 10)) }

// hashOf returns a number in which each bit depends on all words.
func hashOf(words ...string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return binary.LittleEndian.Uint64(sum[:])
}

// base returns the seed that the environment sets, or a random one that is short to type.
func base(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("SEGNO_SEED")
	if text == "" {
		return 1 + rand.Uint64N(999_999_999)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SEGNO_SEED: %v", err)
	}
	return seed
}

// share returns the first case of this run and the one after its last.
func share(t testing.TB, sample, whole int) (first, end int) {
	t.Helper()
	count := sample
	if IsWhole() {
		count = whole
	}
	if text := os.Getenv("SEGNO_COUNT"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("SEGNO_COUNT=%q is not a positive number", text)
		}
		count = n
	}
	part, parts := part(t)
	return count * part / parts, count * (part + 1) / parts
}

// part returns the number of this run's part, from 0, and the number of parts.
func part(t testing.TB) (part, parts int) {
	t.Helper()
	text := os.Getenv("SEGNO_PART")
	if text == "" || !IsWhole() {
		return 0, 1
	}
	if n, err := fmt.Sscanf(text, "%d/%d", &part, &parts); n != 2 || err != nil || part < 0 || part >= parts {
		t.Fatalf("SEGNO_PART=%q is not of the form 2/10", text)
	}
	return part, parts
}
