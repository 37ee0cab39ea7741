package faultfs

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// Sample returns which operations of a trace a test lets fail, in ascending order: the first, the last and
// some of each verb. It returns one of each verb with -short, and all operations under SEGNO_SOAK. It
// returns the same operations for the same trace.
func Sample(trace []string) []int {
	perVerb := 4
	if testing.Short() {
		perVerb = 1
	}
	isWhole := os.Getenv("SEGNO_SOAK") != ""
	r := rand.New(rand.NewPCG(12, uint64(len(trace))))
	seen := map[string]int{}
	var sample []int
	for _, n := range r.Perm(len(trace)) {
		verb, _, _ := strings.Cut(trace[n], ":")
		seen[verb]++
		if isWhole || seen[verb] <= perVerb || n == 0 || n == len(trace)-1 {
			sample = append(sample, n)
		}
	}
	slices.Sort(sample)
	return sample
}
