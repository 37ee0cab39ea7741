package opencode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// TestUsageOfTurns reads the tokens and the costs of messages of both versions. A model without a price has no cost.
func TestUsageOfTurns(t *testing.T) {
	const numbers = `"time":{"created":1795398289355.5},"cost":0.25,"tokens":{"input":10,"output":3,"reasoning":2,"cache":{"read":100,"write":5}}`
	const free = `"time":{"created":1795398289999},"cost":0,"tokens":{"input":1,"output":1,"reasoning":0,"cache":{"read":0,"write":0}}`
	n := func(n int64) *int64 { return &n }
	want := []transcript.Usage{
		{Model: "m", Calls: 1, Tokens: transcript.Tokens{Input: 115, Output: 5, CacheRead: n(100), CacheWrite: n(5), Reasoning: n(2)}, Cost: 0.25, Costed: 1},
		{Model: "n", Calls: 1, Tokens: transcript.Tokens{Input: 1, Output: 1, CacheRead: n(0), CacheWrite: n(0), Reasoning: n(0)}}}
	h, h2 := newHome(t), newHome2(t)
	h.message(`{"role":"user","time":{"created":1}}`, `{"type":"text","text":"go"}`)
	h.message(`{"role":"assistant","modelID":"m",` + numbers + `}`)
	h.message(`{"role":"assistant","modelID":"n",` + free + `}`)
	h2.message2("user", `{"text":"go","time":{"created":1}}`)
	h2.message2("assistant", `{"model":{"id":"m","providerID":"p"},`+numbers+`}`)
	h2.message2("assistant", `{"model":{"id":"n","providerID":"p"},`+free+`}`)
	for _, h := range []*home{h, h2} {
		got, err := h.c.ReadUsage(t.Context(), []segno.Position{h.capture(nil).Position}, 0, 1, h.store.Objects())
		if diff := cmp.Diff([][]transcript.Usage{want}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}
