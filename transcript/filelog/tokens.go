package filelog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.TokenCounter = (*Transcripts)(nil)

// Tokens implements [transcript.TokenCounter].
func (c *Transcripts) Tokens(ctx context.Context, src segno.Source) (*transcript.Tokens, error) {
	const op = "count tokens"
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return nil, err
	}
	lines, err := sessionfile.ReadConversation(op, c.path(src.Session))
	if err != nil {
		return nil, sessionfile.IOError(op, c.path(src.Session), err)
	}
	var sum *transcript.Tokens
	for line := range bytes.Lines(lines) {
		var r record
		if json.Unmarshal(line, &r) != nil {
			continue
		}
		for _, e := range r.Entries {
			var usage struct {
				Input  int64 `json:"input"` // the whole prompt
				Output int64 `json:"output"`
			}
			if e.Kind != segno.EntryUsage || json.Unmarshal(e.Body, &usage) != nil {
				continue
			}
			if sum == nil {
				sum = &transcript.Tokens{}
			}
			*sum = sum.Add(transcript.Tokens{Input: usage.Input, Output: usage.Output})
		}
	}
	return sum, ctx.Err()
}
