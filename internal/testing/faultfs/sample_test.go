package faultfs_test

import (
	"slices"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
)

// TestSample checks that a sample has the first operation, the last and each verb, and that its seed decides the rest.
func TestSample(t *testing.T) {
	trace := []string{"mkdir: d"}
	for range 100 {
		trace = append(trace, "create: f", "write: f", "sync: f")
	}
	trace = append(trace, "rename: d", "syncdir: d")
	t.Setenv("SEGNO_SOAK", "")
	t.Setenv("SEGNO_SEED", "7")
	sample := faultfs.Sample(t, trace)
	verbs := map[string]bool{}
	for _, n := range sample {
		verbs[trace[n]] = true
	}
	if len(verbs) != 6 || sample[0] != 0 || sample[len(sample)-1] != len(trace)-1 || len(sample) > 20 || !slices.IsSorted(sample) {
		t.Errorf("the sample is %v", sample)
	}
	if again := faultfs.Sample(t, trace); !slices.Equal(again, sample) {
		t.Errorf("the sample was %v and is %v", sample, again)
	}
	t.Setenv("SEGNO_SEED", "8")
	if other := faultfs.Sample(t, trace); slices.Equal(other, sample) {
		t.Errorf("another seed has the same sample %v", sample)
	}
	t.Setenv("SEGNO_SOAK", "1")
	t.Setenv("SEGNO_PART", "")
	if whole := faultfs.Sample(t, trace); len(whole) != len(trace) {
		t.Errorf("%d of %d operations are the whole", len(whole), len(trace))
	}
}
