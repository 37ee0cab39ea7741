package trend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/worlds/trend"
)

// TestSummarize checks that a summary counts each attempt once, and has the outcomes of the complete
// generations.
func TestSummarize(t *testing.T) {
	all := rows()
	for i := range all {
		all[i].Seconds, all[i].Ticks, all[i].SimTime, all[i].Checkpoints = 1.5, 16, segno.SimTime(60e9), 2
	}
	all[5].WhyNot = "Ada has a model"
	tokens := int64(7)
	for i := range all {
		all[i].TokensIn = &tokens
	}
	sum := 6 * tokens
	want := trend.Summary{Experiment: "commons", Generations: 3, Seconds: 7.5, CompletedSeconds: 4.5, Ticks: 48, SimTime: segno.SimTime(180e9), Checkpoints: 10,
		Attempts: map[generation.RowStatus]int{generation.RowCompleted: 3, generation.RowSuperseded: 1, generation.RowFailed: 1}, WhyNot: "Ada has a model", TokensIn: &sum,
		Outcomes: map[string]trend.Outcome{"caught": {Last: 90, Mean: 191.0 / 3, Generations: 3}, "fish": {Last: 3, Mean: 3, Generations: 3}}}
	if diff := cmp.Diff(want, trend.Summarize("commons", all), cmpopts.IgnoreUnexported(trend.Outcome{}), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Error(diff)
	}
}
