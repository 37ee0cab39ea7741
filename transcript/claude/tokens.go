package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
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
	files := []string{src.Path}
	beside, _, err := c.listSidecars(src.Session, src.Path)
	if err != nil {
		return nil, sessionfile.IOError(op, src.Path, err)
	}
	for _, s := range beside {
		if s.isOfSubagent() {
			files = append(files, c.sidecarFile(src.Session, src.Path, s.path))
		}
	}
	var calls sessionfile.CallCounter
	for _, file := range files {
		if err := countFile(ctx, file, &calls); err != nil {
			return nil, sessionfile.IOError(op, file, err)
		}
	}
	return calls.Total(), nil
}

func countFile(ctx context.Context, file string, calls *sessionfile.CallCounter) error {
	f, err := vfs.OpenRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return sessionfile.ScanLines(ctx, f, false, scanCall, calls.Add)
}

// ReadUsage implements [transcript.UsageReader].
func (c *Transcripts) ReadUsage(ctx context.Context, positions []segno.Position, from, to int, o segno.Objects) ([][]transcript.Usage, error) {
	s := sessionfile.StoredUsage{NewScan: func() sessionfile.Scan { return scanCall }, Beside: readSubagents}
	return s.Read(ctx, positions, from, to, o)
}

// isOfSubagent reports whether a sidecar is the session of a subagent.
func (s *sidecar) isOfSubagent() bool {
	return strings.HasPrefix(s.path, "session/") && path.Ext(s.path) == ".jsonl"
}

// readSubagents calls read for the sessions of subagents in a list of sidecars that changed since the list before.
func readSubagents(ctx context.Context, o segno.Objects, list, before segno.Hash, read func(io.Reader) error) error {
	now, err := getSidecars(ctx, o, list)
	if err != nil {
		return err
	}
	earlier := map[string]segno.Hash{}
	if !before.IsZero() {
		old, err := getSidecars(ctx, o, before)
		if err != nil {
			return err
		}
		for _, s := range old {
			earlier[s.path] = s.name
		}
	}
	for _, s := range now {
		if !s.isOfSubagent() || earlier[s.path] == s.name {
			continue
		}
		in, err := openStored(ctx, o, &s)
		if err == nil {
			err = read(in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openStored returns the stored bytes of a sidecar.
func openStored(ctx context.Context, o segno.Objects, s *sidecar) (io.Reader, error) {
	if s.isLog {
		return sessionfile.OpenLog(ctx, o, s.name, s.size, nil)
	}
	data, err := o.Get(ctx, s.name)
	return bytes.NewReader(data), err
}

// scanCall finds the call in a record of an answer. A call has a record for each block of its answer. The last of these
// records has the final numbers.
func scanCall(line []byte, isSubagent bool, add func(transcript.ModelCall)) {
	if !bytes.Contains(line, []byte(`"usage"`)) {
		return
	}
	var r struct {
		Type        string   `json:"type"`
		Time        string   `json:"timestamp"`
		IsSidechain bool     `json:"isSidechain"`
		Cost        *float64 `json:"costUSD"` // of older versions
		Message     struct {
			ID    string `json:"id"`
			Model string `json:"model"`
			Usage *struct {
				Input      int64  `json:"input_tokens"` // without the cached tokens
				CacheRead  *int64 `json:"cache_read_input_tokens"`
				CacheWrite *int64 `json:"cache_creation_input_tokens"`
				Output     int64  `json:"output_tokens"`
			} `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(line, &r) != nil || r.Type != "assistant" || r.Message.Usage == nil || r.Message.Model == "<synthetic>" {
		return
	}
	u := r.Message.Usage
	tokens := transcript.Tokens{Input: u.Input + transcript.Known(u.CacheRead) + transcript.Known(u.CacheWrite), Output: u.Output,
		CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	add(transcript.ModelCall{ID: r.Message.ID, Model: r.Message.Model, IsSubagent: isSubagent || r.IsSidechain, Time: r.Time, Tokens: tokens, Cost: r.Cost})
}
