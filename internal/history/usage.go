package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/transcript"
)

// Usage is what the calls of models used in a turn, or in several. A later release may add fields, but removes none.
type Usage struct {
	UsageSum
	Subagents *UsageSum `json:"subagents,omitempty"` // the part that subagents used
}

// UsageSum is the sum of some calls.
type UsageSum struct {
	Calls int `json:"calls"`
	transcript.Tokens
	CostUSD  *float64 `json:"cost_usd"` // of the calls whose cost is known
	Unpriced int      `json:"unpriced"` // the number of other calls
	Models   []string `json:"models"`
}

// NewUsage returns the sum of parts, or nil if there are none. prices has the prices of calls whose cost the agent did not
// record; it may be nil.
func NewUsage(parts []transcript.Usage, prices Prices) *Usage {
	var sum *Usage
	for _, p := range parts {
		u := &Usage{UsageSum: UsageSum{Calls: p.Calls, Tokens: p.Tokens, Unpriced: p.Calls - p.Costed, Models: []string{}}}
		if p.Model != "" {
			u.Models = append(u.Models, p.Model)
		}
		if p.Costed > 0 {
			u.CostUSD = &p.Cost
		} else if cost, ok := prices.cost(p.Model, p.Tokens); ok {
			u.CostUSD, u.Unpriced = &cost, 0
		}
		if p.IsSubagent {
			part := u.UsageSum
			u.Subagents = &part
		}
		sum = sum.Add(u)
	}
	return sum
}

// Add returns the sum of u and more, of which each may be nil.
func (u *Usage) Add(more *Usage) *Usage {
	if u == nil || more == nil {
		return cmp.Or(u, more)
	}
	return &Usage{*u.UsageSum.add(&more.UsageSum), u.Subagents.add(more.Subagents)}
}

func (u *UsageSum) add(more *UsageSum) *UsageSum {
	if u == nil || more == nil {
		return cmp.Or(u, more)
	}
	sum := UsageSum{Calls: u.Calls + more.Calls, Tokens: u.Tokens.Add(more.Tokens), CostUSD: cmp.Or(u.CostUSD, more.CostUSD), Unpriced: u.Unpriced + more.Unpriced,
		Models: slices.Concat(u.Models, more.Models)}
	if u.CostUSD != nil && more.CostUSD != nil {
		cost := *u.CostUSD + *more.CostUSD
		sum.CostUSD = &cost
	}
	slices.Sort(sum.Models)
	sum.Models = slices.Compact(sum.Models)
	return &sum
}

// String describes the usage in one line.
func (u *Usage) String() string {
	if u == nil {
		return "—"
	}
	text := thousands(u.Input) + " in"
	if cached := transcript.Known(u.CacheRead); cached > 0 {
		text += " (" + thousands(cached) + " cached)"
	}
	text += ", " + thousands(u.Output) + " out"
	switch {
	case u.CostUSD != nil && u.Unpriced > 0:
		text += fmt.Sprintf(", over $%.2f", *u.CostUSD)
	case u.CostUSD != nil:
		text += fmt.Sprintf(", $%.2f", *u.CostUSD)
	}
	if u.Subagents != nil {
		text += fmt.Sprintf(", of that subagents %s in, %s out", thousands(u.Subagents.Input), thousands(u.Subagents.Output))
	}
	return text
}

// thousands writes a number in units of thousands or millions.
func thousands(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1000), ".0") + "k"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1_000_000), ".0") + "M"
}

// Prices are prices of models in US dollars for a million tokens. A name that ends in "*" is the beginning of a name.
type Prices map[string]struct {
	Input  *float64 `json:"input"`
	Output *float64 `json:"output"`
	// Without a price, cached tokens cost as much as others.
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

// maxPrice is the largest price. It keeps sums finite.
const maxPrice = 1_000_000

// ParsePrices reads a JSON object of prices.
func ParsePrices(data []byte) (p Prices, err error) {
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("not an object of prices for each model: %w", err)
	}
	for name, x := range p {
		if x.Input == nil || x.Output == nil {
			return nil, fmt.Errorf("model %q needs the prices input and output", name)
		}
		for _, price := range []*float64{x.Input, x.Output, x.CacheRead, x.CacheWrite} {
			if price != nil && (*price < 0 || *price > maxPrice) {
				return nil, fmt.Errorf("model %q has the price %g, which is not from 0 to %d", name, *price, int(maxPrice))
			}
		}
	}
	return p, nil
}

// cost returns the price of tokens. ok is false if the model has none.
func (p Prices) cost(model string, t transcript.Tokens) (cost float64, ok bool) {
	best := ""
	for name := range p {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		if (name == model || isPrefix && strings.HasPrefix(model, prefix)) && (best == "" || name == model || best != model && len(name) > len(best)) {
			best = name
		}
	}
	x, ok := p[best]
	if !ok || model == "" {
		return 0, false
	}
	read, written := transcript.Known(t.CacheRead), transcript.Known(t.CacheWrite)
	cost = float64(read)**cmp.Or(x.CacheRead, x.Input) + float64(written)**cmp.Or(x.CacheWrite, x.Input)
	return (cost + float64(t.Input-read-written)**x.Input + float64(t.Output)**x.Output) / 1e6, true
}

// UsageReader reads what the turns of threads used: from the stored transcripts of agents, or else from entries.
type UsageReader struct{ *turns.Source }

// Read returns the parts of the usage of checkpoints of h, by their ids. A checkpoint of which nothing is known has none. For a
// step of a Go agent, the parts are those of its turn up to that step. If some cannot be read, Read returns the others with
// an error.
func (r *UsageReader) Read(ctx context.Context, h *History, of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
	out, failed := r.ReadTranscripts(ctx, h, of)
	for i := range of {
		c := &of[i]
		if out[c.ID] != nil || c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointStep {
			continue
		}
		t, err := r.Load(ctx, c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failed = errors.Join(failed, err); err == nil && len(t.Usage) > 0 {
			out[c.ID] = t.Usage
		}
	}
	return out, failed
}

// OwnTurns returns the turns of a thread on all its lines, oldest first, without those of the thread that it was forked from. Of the
// steps of a turn it has the last one of each line.
func (h *History) OwnTurns(thread segno.ThreadID) (own []segno.Checkpoint) {
	wentOn := map[segno.CommitID]bool{}
	for i := range h.All {
		c := &h.All[i]
		if up := h.ByID[c.Parent]; up != nil && up.Kind == segno.CheckpointStep && up.Session == nil && up.Turn == c.Turn {
			wentOn[up.ID] = true
		}
	}
	for _, c := range slices.Backward(h.All) {
		if (c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep) && c.Thread == thread && !wentOn[c.ID] {
			own = append(own, c)
		}
	}
	return own
}

// ReadOwn returns [History.OwnTurns] and what each of them used, so that no call counts twice in a sum of threads. read reads the
// usage of checkpoints. If turns of a Go agent continue at the same step, on two lines or in a fork, the calls up to that step
// count in the first one alone.
func (h *History) ReadOwn(thread segno.ThreadID, read func(of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error)) (
	own []segno.Checkpoint, used map[segno.CommitID][]transcript.Usage, err error) {
	own = h.OwnTurns(thread)
	of, shared, isCounted := slices.Clone(own), map[segno.CommitID]segno.CommitID{}, map[segno.CommitID]bool{}
	for i := range own {
		c := &own[i]
		for up := c; up != nil && up.Turn == c.Turn && turns.IsOfGoAgent(c); up = h.ByID[up.Parent] {
			if !turns.IsOfGoAgent(up) {
				continue // the beginning of a fork
			}
			if isCounted[up.ID] || up.Thread != thread {
				shared[c.ID], of = up.ID, append(of, *up)
				break
			}
			isCounted[up.ID] = true
		}
	}
	all, err := read(of)
	if err != nil {
		return nil, nil, err
	}
	used = map[segno.CommitID][]transcript.Usage{}
	for i := range own {
		id := own[i].ID
		if parts := all[id][min(len(all[shared[id]]), len(all[id])):]; len(parts) > 0 { // the parts are in the order of the steps
			used[id] = parts
		}
	}
	return own, used, nil
}

// ReadTranscripts is Read for the checkpoints whose agents keep transcripts, and only from these.
func (r *UsageReader) ReadTranscripts(ctx context.Context, h *History, of []segno.Checkpoint) (out map[segno.CommitID][]transcript.Usage, failed error) {
	out = map[segno.CommitID][]transcript.Usage{}
	wanted := map[segno.CommitID]bool{}
	for i := range of {
		wanted[of[i].ID] = true
	}
	byAgent := map[string][]*segno.Checkpoint{} // oldest first
	for i := range slices.Backward(h.All) {
		if c := &h.All[i]; c.Session != nil && !c.Session.Log.IsZero() {
			byAgent[c.Session.Agent] = append(byAgent[c.Session.Agent], c)
		}
	}
	for agent, all := range byAgent {
		reader, ok := r.Transcripts[agent].(transcript.UsageReader)
		first := slices.IndexFunc(all, func(c *segno.Checkpoint) bool { return wanted[c.ID] })
		if !ok || first < 0 {
			continue
		}
		last := len(all)
		for !wanted[all[last-1].ID] {
			last--
		}
		positions := make([]segno.Position, len(all))
		for i := range positions {
			positions[i] = *all[i].Session
		}
		parts, err := reader.ReadUsage(ctx, positions, first, last, r.Store.Objects())
		failed = errors.Join(failed, err)
		for i, p := range parts {
			if wanted[all[i].ID] && p != nil {
				out[all[i].ID] = p
			}
		}
	}
	return out, failed
}
