package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.TokenCounter = (*Transcripts)(nil)

// Tokens implements [transcript.TokenCounter].
func (c *Transcripts) Tokens(ctx context.Context, src segno.Source) (*transcript.Tokens, error) {
	const op = "count tokens"
	files := []string{src.Path}
	beside, _, err := c.listSidecars(src.Session, src.Path)
	if err != nil {
		return nil, sessionfile.IOError(op, src.Path, err)
	}
	for _, s := range beside { // the sessions of subagents are among them
		if strings.HasPrefix(s.path, "session/") && path.Ext(s.path) == ".jsonl" {
			files = append(files, c.sidecarFile(src.Session, src.Path, s.path))
		}
	}
	calls := map[string]transcript.Tokens{}
	for _, file := range files {
		if err := readCalls(ctx, file, calls); err != nil {
			return nil, sessionfile.IOError(op, file, err)
		}
	}
	if len(calls) == 0 {
		return nil, nil
	}
	var sum transcript.Tokens
	for _, t := range calls {
		sum = sum.Add(t)
	}
	return &sum, nil
}

// readCalls adds the calls in a file to calls. A call has a record for each block of its answer. The last of
// these records has the final numbers.
func readCalls(ctx context.Context, file string, calls map[string]transcript.Tokens) error {
	f, err := vfs.OpenRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := sessionfile.NewLineReader(f, 0)
	for line := range lines.All() {
		if !bytes.Contains(line.Bytes, []byte(`"usage"`)) {
			continue
		}
		var r struct {
			Type    string `json:"type"`
			Message struct {
				ID    string `json:"id"`
				Usage *struct {
					Input      int64 `json:"input_tokens"` // without the cached tokens
					CacheRead  int64 `json:"cache_read_input_tokens"`
					CacheWrite int64 `json:"cache_creation_input_tokens"`
					Output     int64 `json:"output_tokens"`
				} `json:"usage"`
			} `json:"message"`
		}
		if json.Unmarshal(line.Bytes, &r) != nil || r.Type != "assistant" || r.Message.Usage == nil {
			continue
		}
		u := r.Message.Usage
		calls[r.Message.ID] = transcript.Tokens{In: u.Input + u.CacheRead + u.CacheWrite, Out: u.Output}
	}
	if _, err := lines.End(); err != nil {
		return err
	}
	return ctx.Err()
}
