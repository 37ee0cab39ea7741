package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.UsageReader = (*Transcripts)(nil)

// ReadUsage implements [transcript.UsageReader]. Subagents of OpenCode have sessions of their own, which are not counted.
func (c *Transcripts) ReadUsage(ctx context.Context, positions []segno.Position, from, to int, o segno.Objects) ([][]transcript.Usage, error) {
	s := sessionfile.StoredUsage{NewScan: func() sessionfile.Scan { return scanCall }, Repeats: true}
	return s.Read(ctx, positions, from, to, o)
}

// scanCall finds the call in a message. A cut gives messages other ids, and keeps the times at which they began.
func scanCall(text []byte, isSubagent bool, add func(transcript.ModelCall)) {
	if !bytes.Contains(text, []byte(`"tokens"`)) {
		return
	}
	var l line
	var d struct {
		Role   string `json:"role"`
		Name   string `json:"modelID"`
		Model  struct{ ID string }
		Cost   *float64
		Time   struct{ Created float64 }
		Tokens *struct {
			Input     int64 // without the cached tokens
			Output    int64 // without the reasoning
			Reasoning *int64
			Cache     struct{ Read, Write *int64 }
		}
	}
	if json.Unmarshal(text, &l) != nil || l.Message != "" || json.Unmarshal(l.Data, &d) != nil || d.Tokens == nil || d.Role != "assistant" && l.Type != "assistant" {
		return
	}
	n, cache := d.Tokens, d.Tokens.Cache
	t := transcript.Tokens{Input: n.Input + transcript.Known(cache.Read) + transcript.Known(cache.Write), Output: n.Output + transcript.Known(n.Reasoning),
		CacheRead: cache.Read, CacheWrite: cache.Write, Reasoning: n.Reasoning}
	call := transcript.ModelCall{ID: l.ID, Model: d.Name + d.Model.ID, IsSubagent: isSubagent, Tokens: t}
	if d.Time.Created > 0 {
		call.ID = strconv.FormatFloat(d.Time.Created, 'f', -1, 64)
	}
	if d.Cost != nil && *d.Cost > 0 { // OpenCode records 0 for a model without a price
		call.Cost = d.Cost
	}
	if t.Input != 0 || t.Output != 0 {
		add(call)
	}
}
