package sessionfile_test

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// TestCallsOfAHostileTranscript counts calls with numbers that no model reports, and calls of many models. The sums neither
// overflow nor become negative, and the list of models stays short.
func TestCallsOfAHostileTranscript(t *testing.T) {
	var c sessionfile.CallCounter
	huge, cost, negative := int64(1)<<62, 1e308, int64(-5)
	for i := range 4 {
		c.Add(transcript.ModelCall{Model: "a", Tokens: transcript.Tokens{Input: huge, Output: 1}})
		c.Add(transcript.ModelCall{Model: "a", Tokens: transcript.Tokens{Input: 1, Output: -1}})
		c.Add(transcript.ModelCall{Model: "a", Tokens: transcript.Tokens{Input: 1, Output: 1, CacheRead: &negative}})
		c.Add(transcript.ModelCall{Model: "a", Tokens: transcript.Tokens{Input: 3, Output: 1}, Cost: &cost})
		c.Add(transcript.ModelCall{ID: fmt.Sprint(i), Tokens: transcript.Tokens{Input: 1, Output: 1}, IsSubagent: true})
	}
	sums := c.Take()
	if len(sums) != 2 || sums[0].Calls != 4 || sums[0].Input != 12 || sums[0].Output != 4 || sums[0].Costed != 0 || sums[0].Cost != 0 {
		t.Errorf("%+v", sums)
	}
	for i := range 1000 {
		c.Add(transcript.ModelCall{Model: fmt.Sprint(i), Tokens: transcript.Tokens{Input: 1, Output: 1}})
	}
	if total := c.Total(); total.Input != 1000 {
		t.Errorf("the calls of many models used %d tokens", total.Input)
	}
	if sums := c.Take(); len(sums) > 102 {
		t.Errorf("%d models", len(sums))
	}
}
