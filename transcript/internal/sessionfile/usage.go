package sessionfile

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// Scan calls add for the model call in a line of a session, if there is one. isSubagent is set for a line of a
// subagent's file. A Scan may keep a state from line to line.
type Scan func(line []byte, isSubagent bool, add func(transcript.ModelCall))

// CallCounter sums model calls. Records of one call count once.
type CallCounter struct {
	seen map[string]transcript.ModelCall
	sums []transcript.Usage
}

// The largest numbers of one call and of models. Others are not those of an agent: sums of them could overflow, and a list of
// models would be long.
const (
	maxTokens = 1_000_000_000
	maxCost   = 1_000_000
	maxModels = 100
)

// isPlausible reports whether a model can have made a call.
func isPlausible(t *transcript.Tokens) bool {
	for _, n := range []int64{t.Input, t.Output, transcript.Known(t.CacheRead), transcript.Known(t.CacheWrite), transcript.Known(t.Reasoning)} {
		if n < 0 || n > maxTokens {
			return false
		}
	}
	return true
}

// Add adds a call, or what a later record of a call has beyond the earlier one. A record with less is a copy: Claude Code
// writes zeros into the messages that it keeps in a compaction.
func (c *CallCounter) Add(call transcript.ModelCall) {
	if !isPlausible(&call.Tokens) {
		return
	}
	if call.Cost != nil && (*call.Cost < 0 || *call.Cost > maxCost) {
		call.Cost = nil
	}
	part, isNew, hasMore := c.since(call)
	if !hasMore {
		return
	}
	u := c.sumOf(part)
	u.Tokens = u.Tokens.Add(part.Tokens)
	if !isNew {
		return
	}
	if u.Calls++; part.Cost != nil {
		u.Costed++
		u.Cost += *part.Cost
	}
}

// since remembers a call, and returns what it has beyond an earlier record of it.
func (c *CallCounter) since(call transcript.ModelCall) (part transcript.ModelCall, isNew, hasMore bool) {
	before, isKnown := c.seen[call.ID]
	more := call.Tokens.Sub(before.Tokens)
	if isKnown && (more.Input < 0 || more.Output < 0 || more.Input == 0 && more.Output == 0) {
		return part, false, false
	}
	if c.seen == nil {
		c.seen = map[string]transcript.ModelCall{}
	}
	if call.ID != "" {
		c.seen[call.ID] = call
	}
	if isKnown {
		call.Model, call.IsSubagent, call.Tokens = before.Model, before.IsSubagent, more
	}
	return call, !isKnown, true
}

// sumOf returns the sum to which a call belongs. Models beyond the largest number share one without a name.
func (c *CallCounter) sumOf(call transcript.ModelCall) *transcript.Usage {
	find := func(model string) int {
		return slices.IndexFunc(c.sums, func(u transcript.Usage) bool { return u.Model == model && u.IsSubagent == call.IsSubagent })
	}
	i := find(call.Model)
	if i < 0 && len(c.sums) >= maxModels {
		call.Model = ""
		i = find("")
	}
	if i < 0 {
		i = len(c.sums)
		c.sums = append(c.sums, transcript.Usage{Model: call.Model, IsSubagent: call.IsSubagent})
	}
	return &c.sums[i]
}

// Take returns the sums since the last Take. Calls before it stay known.
func (c *CallCounter) Take() []transcript.Usage {
	sums := c.sums
	c.sums = nil
	return sums
}

// Total returns the tokens of all sums, or nil if there are none.
func (c *CallCounter) Total() (sum *transcript.Tokens) {
	for _, u := range c.sums {
		if sum == nil {
			sum = &transcript.Tokens{}
		}
		*sum = sum.Add(u.Tokens)
	}
	return sum
}

// ScanLines calls scan for the whole lines of r.
func ScanLines(ctx context.Context, r io.Reader, isSubagent bool, scan Scan, add func(transcript.ModelCall)) error {
	lines := NewLineReader(r, 0)
	for line := range lines.All() {
		scan(line.Bytes, isSubagent, add)
	}
	_, err := lines.End()
	return cmp.Or(err, ctx.Err())
}

// StoredUsage implements [transcript.UsageReader] for an agent.
type StoredUsage struct {
	NewScan func() Scan
	// Repeats is set if a session may repeat the records of its earlier turns at any place.
	Repeats bool
	// Beside calls read for the files of subagents that a list of sidecars has and the one before it lacks. It may be nil.
	Beside func(ctx context.Context, o segno.Objects, list, before segno.Hash, read func(io.Reader) error) error
}

// Read reads the positions. The log of a position refers to the log of the capture before it, so only the bytes behind that
// one are read. Read begins one position before from, because a capture may end between two records of a call.
func (s StoredUsage) Read(ctx context.Context, all []segno.Position, from, to int, o segno.Objects) ([][]transcript.Usage, error) {
	begin := max(0, from-1)
	if s.Repeats {
		begin = 0
	}
	r := usageReading{StoredUsage: s, o: o, scan: s.NewScan(), known: map[segno.Hash]bool{}}
	out := make([][]transcript.Usage, len(all))
	var failed error
	for i := range all[:to] {
		if i >= begin {
			before := segno.Hash{}
			if i > begin {
				before = all[i-1].Sidecars
			}
			isWhole, err := r.read(ctx, &all[i], before)
			r.countBeside(i+1 == len(all) || all[i+1].Sidecars != all[i].Sidecars)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if isWhole && begin > 0 && err == nil { // it may repeat calls of another session
				return s.Read(ctx, all, 0, to, o)
			}
			if sums := r.calls.Take(); i >= from && err == nil {
				out[i] = sums
			} else if i >= from {
				failed = cmp.Or(failed, err)
			}
		}
		r.known[all[i].Log] = true
	}
	return out, failed
}

type usageReading struct {
	StoredUsage
	o     segno.Objects
	scan  Scan
	calls CallCounter
	known map[segno.Hash]bool // the logs of the positions before
	last  string              // the time of the last call of the session itself
	// beside are calls of subagents that are not counted yet. A capture of several turns has the files of subagents as they
	// were after the last turn, so the times of the calls decide to which turn they belong.
	beside []transcript.ModelCall
}

// countBeside counts the calls of subagents before the last call of a turn, or all of them.
func (r *usageReading) countBeside(all bool) {
	r.beside = slices.DeleteFunc(r.beside, func(c transcript.ModelCall) bool {
		isOfTurn := all || c.Time <= r.last
		if isOfTurn {
			r.calls.Add(c)
		}
		return isOfTurn
	})
}

func (r *usageReading) add(c transcript.ModelCall) {
	r.last = max(r.last, c.Time)
	r.calls.Add(c)
}

// read adds the calls of a position that are behind the bytes of a known log. isWhole is set if they may repeat calls
// of any position.
func (r *usageReading) read(ctx context.Context, p *segno.Position, before segno.Hash) (isWhole bool, err error) {
	if p.Log.IsZero() {
		return false, nil
	}
	var chunks []Chunk
	for name := p.Log; !r.known[name]; {
		n, err := getLog(ctx, r.o, name)
		if err != nil {
			return false, err
		}
		chunks = append(slices.Clone(n.Chunks), chunks...)
		if n.Session != "" || n.Keep != nil || n.Head.Size > 0 { // the log before it is that of another session
			isWhole = n.Keep != nil // this one may repeat records in another form
			break
		}
		if name = n.Prev; name.IsZero() {
			isWhole = true
			break
		}
	}
	if err := ScanLines(ctx, &chunkReader{ctx: ctx, objects: r.o, chunks: chunks}, false, r.scan, r.add); err != nil {
		return false, err
	}
	if r.Beside == nil || p.Sidecars.IsZero() || p.Sidecars == before {
		return isWhole, nil
	}
	return isWhole, r.Beside(ctx, r.o, p.Sidecars, before, func(in io.Reader) error {
		return ScanLines(ctx, in, true, r.scan, func(c transcript.ModelCall) { r.beside = append(r.beside, c) })
	})
}
