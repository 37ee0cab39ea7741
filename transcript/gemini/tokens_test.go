package gemini_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// TestUsageOfTurns counts each message of a recorded session once, although Gemini CLI writes it several times.
func TestUsageOfTurns(t *testing.T) {
	h := newHome(t, `{"id":"u3","type":"user","content":[{"text":"more"}]}`+"\n",
		`{"id":"a3","type":"gemini","model":"m","tokens":{"input":100,"output":5,"cached":40,"thoughts":7,"tool":1,"total":113},"content":"x"}`+"\n",
		`{"id":"f0ba0bab-1502-4119-839d-e19f9de20e13","type":"gemini","model":"gemini-2.5-pro","tokens":{"input":10,"output":3,"cached":0,"thoughts":0,"tool":0,"total":13},"content":"done"}`+"\n")
	got := h.capture(recorded, nil)
	var positions []segno.Position
	for _, e := range got.Earlier {
		positions = append(positions, e.Position)
	}
	positions = append(positions, got.Position)
	n := func(n int64) *int64 { return &n }
	old := transcript.Usage{Model: "gemini-2.5-pro", Calls: 2, Tokens: transcript.Tokens{Input: 20, Output: 6, CacheRead: n(0), Reasoning: n(0)}}
	want := [][]transcript.Usage{{old}, {old}, {{Model: "m", Calls: 1, Tokens: transcript.Tokens{Input: 101, Output: 12, CacheRead: n(40), Reasoning: n(7)}}}}
	all, err := h.c.ReadUsage(t.Context(), positions, 0, 3, h.store.Objects())
	if diff := cmp.Diff(want, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
	want[0], want[1] = nil, nil
	last, err := h.c.ReadUsage(t.Context(), positions, 2, 3, h.store.Objects())
	if diff := cmp.Diff(want, last); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
