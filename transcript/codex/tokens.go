package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.TokenCounter = (*Transcripts)(nil)
	_ transcript.UsageReader  = (*Transcripts)(nil)
)

// Tokens implements [transcript.TokenCounter].
func (c *Transcripts) Tokens(ctx context.Context, src segno.Source) (*transcript.Tokens, error) {
	const op = "count tokens"
	s, err := c.open(ctx, op, src)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var calls sessionfile.CallCounter
	if err := sessionfile.ScanLines(ctx, s.section(0, math.MaxInt64), false, newScan(), calls.Add); err != nil {
		return nil, sessionfile.IOError(op, s.src.Path, err)
	}
	return calls.Total(), nil
}

// ReadUsage implements [transcript.UsageReader]. Subagents of Codex have sessions of their own, which are not counted.
func (c *Transcripts) ReadUsage(ctx context.Context, positions []segno.Position, from, to int, o segno.Objects) ([][]transcript.Usage, error) {
	return sessionfile.StoredUsage{NewScan: newScan}.Read(ctx, positions, from, to, o)
}

// total is a number of tokens as Codex records it.
type total struct {
	Input      int64  `json:"input_tokens"` // including the cached ones
	CacheRead  *int64 `json:"cached_input_tokens"`
	CacheWrite *int64 `json:"cache_write_input_tokens"`
	Output     int64  `json:"output_tokens"` // including the reasoning
	Reasoning  *int64 `json:"reasoning_output_tokens"`
}

func (t *total) tokens() transcript.Tokens {
	return transcript.Tokens{Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning}
}

// callScan finds calls. Newer versions record each one. Older versions record only the total of the session after each call, and
// repeat it in other records; so do newer ones.
type callScan struct {
	model  string
	before *transcript.Tokens // the last total; nil if it is not known
	seen   map[string]bool    // records, because a fork begins with those of its source
}

func newScan() sessionfile.Scan {
	s := &callScan{seen: map[string]bool{}}
	return s.scan
}

func (s *callScan) scan(line []byte, _ bool, add func(transcript.ModelCall)) {
	isAny := func(kinds ...string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return bytes.Contains(line, []byte(kind)) })
	}
	if !isAny(`"token_count"`, `"token_usage_record"`, `"turn_context"`) {
		return
	}
	var r struct {
		Time    string `json:"timestamp"`
		Type    string `json:"type"`
		Payload struct {
			Type  string `json:"type"`
			Model string `json:"model"`
			ID    string `json:"response_id"`
			Usage *total `json:"usage"`
			Sum   *total `json:"thread_token_usage"`
			Info  struct {
				Total *total `json:"total_token_usage"`
				Last  *total `json:"last_token_usage"`
			} `json:"info"`
		} `json:"payload"`
	}
	err := json.Unmarshal(line, &r)
	switch info := r.Payload.Info; {
	case err != nil:
	case r.Type == "turn_context":
		s.model = r.Payload.Model
	case r.Type == "token_usage_record" && r.Payload.Usage != nil:
		add(transcript.ModelCall{ID: r.Payload.ID, Model: s.model, Tokens: r.Payload.Usage.tokens()})
		if r.Payload.Sum != nil {
			now := r.Payload.Sum.tokens()
			s.before = &now
		}
	case r.Type == "event_msg" && r.Payload.Type == "token_count" && info.Total != nil:
		now := info.Total.tokens()
		id := fmt.Sprint(r.Time, " ", now.Input, " ", now.Output)
		if !s.seen[id] || r.Time == "" {
			if call := s.callBefore(now, info.Last); call.Input != 0 || call.Output != 0 {
				add(transcript.ModelCall{Model: s.model, Tokens: call})
			}
		}
		s.seen[id], s.before = true, &now
	}
}

// callBefore returns the tokens of the call before a total. A total that is smaller than the previous one comes from a
// process that began to count again.
func (s *callScan) callBefore(now transcript.Tokens, last *total) transcript.Tokens {
	switch {
	case s.before != nil && now.Input >= s.before.Input && now.Output >= s.before.Output:
		return now.Sub(*s.before)
	case last != nil:
		return last.tokens()
	}
	return now
}
