package gemini

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.UsageReader = (*Transcripts)(nil)

// ReadUsage implements [transcript.UsageReader]. Subagents of Gemini CLI have files that segno does not keep.
func (c *Transcripts) ReadUsage(ctx context.Context, positions []segno.Position, from, to int, o segno.Objects) ([][]transcript.Usage, error) {
	s := sessionfile.StoredUsage{NewScan: func() sessionfile.Scan { return scanCall }, Repeats: true}
	return s.Read(ctx, positions, from, to, o)
}

// scanCall finds the call in a message. A later line with the same message replaces it.
func scanCall(line []byte, isSubagent bool, add func(transcript.ModelCall)) {
	if !bytes.Contains(line, []byte(`"tokens"`)) {
		return
	}
	var m struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		Model  string `json:"model"`
		Tokens *struct {
			Input    int64  `json:"input"` // including the cached ones
			Output   int64  `json:"output"`
			Cached   *int64 `json:"cached"`
			Thoughts *int64 `json:"thoughts"` // not in Output
			Tool     int64  `json:"tool"`     // prompts of tools that the model's server ran
		} `json:"tokens"`
	}
	if json.Unmarshal(line, &m) != nil || m.Type != "gemini" || m.Tokens == nil {
		return
	}
	n := m.Tokens
	t := transcript.Tokens{Input: n.Input + n.Tool, Output: n.Output + transcript.Known(n.Thoughts), CacheRead: n.Cached, Reasoning: n.Thoughts}
	add(transcript.ModelCall{ID: m.ID, Model: m.Model, IsSubagent: isSubagent, Tokens: t})
}
