package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"math"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.TokenCounter = (*Transcripts)(nil)

// Tokens implements [transcript.TokenCounter]. Codex records the total of the session after each call,
// and repeats it in other records. A total that is smaller than the previous one comes from a process
// that began to count again.
func (c *Transcripts) Tokens(ctx context.Context, src segno.Source) (*transcript.Tokens, error) {
	const op = "count tokens"
	s, err := c.open(ctx, op, src)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var sum *transcript.Tokens
	var before transcript.Tokens
	lines := sessionfile.NewLineReader(s.section(0, math.MaxInt64), 0)
	for line := range lines.All() {
		if !bytes.Contains(line.Bytes, []byte(`"token_count"`)) {
			continue
		}
		var r struct {
			Type    string `json:"type"`
			Payload struct {
				Type string `json:"type"`
				Info struct {
					Total *struct {
						Input  int64 `json:"input_tokens"` // including the cached ones
						Output int64 `json:"output_tokens"`
					} `json:"total_token_usage"`
				} `json:"info"`
			} `json:"payload"`
		}
		if json.Unmarshal(line.Bytes, &r) != nil || r.Type != "event_msg" || r.Payload.Type != "token_count" || r.Payload.Info.Total == nil {
			continue
		}
		now := transcript.Tokens{In: r.Payload.Info.Total.Input, Out: r.Payload.Info.Total.Output}
		if now.In < before.In || now.Out < before.Out {
			before = transcript.Tokens{}
		}
		if sum == nil {
			sum = &transcript.Tokens{}
		}
		*sum = sum.Add(transcript.Tokens{In: now.In - before.In, Out: now.Out - before.Out})
		before = now
	}
	if _, err := lines.End(); err != nil {
		return nil, sessionfile.IOError(op, s.src.Path, err)
	}
	return sum, ctx.Err()
}
