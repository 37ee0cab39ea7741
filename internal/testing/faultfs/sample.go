package faultfs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// Sample returns the operations of a trace that a test should fail, in ascending order: the first, the last and
// some of each verb, drawn at each run. With -short, it returns one of each verb. If suites are tried whole, it
// returns all operations of this part of the run.
func Sample(t testing.TB, trace []string) []int {
	t.Helper()
	perVerb := 2
	if testing.Short() {
		perVerb = 1
	}
	r := rand.New(rand.NewPCG(soak.Seed(t), uint64(len(trace))))
	all := r.Perm(len(trace))
	if soak.IsWhole() {
		slices.Sort(all)
		return soak.Mine(t, all)
	}
	var sample []int
	seen := map[string]int{}
	for _, n := range all {
		verb, _, _ := strings.Cut(trace[n], ":")
		seen[verb]++
		if seen[verb] <= perVerb || n == 0 || n == len(trace)-1 {
			sample = append(sample, n)
		}
	}
	slices.Sort(sample)
	return sample
}
