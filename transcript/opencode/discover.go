package opencode

import (
	"cmp"
	"context"
	"iter"
	"math"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.Discovery    = (*Transcripts)(nil)
	_ transcript.Restorer     = (*Transcripts)(nil)
	_ transcript.TurnCapturer = (*Transcripts)(nil)
)

// Sessions yields the sessions in the databases, without those of subagents.
func (c *Transcripts) Sessions(ctx context.Context) iter.Seq2[transcript.SessionFile, error] {
	return func(yield func(transcript.SessionFile, error) bool) {
		rows, failed := c.list(ctx, "")
		for _, r := range rows {
			f := transcript.SessionFile{Session: segno.SessionID(r.ID), Path: r.File, Bytes: r.Size, Modified: time.UnixMilli(r.Updated), IsShared: true}
			if !yield(f, sessionfile.CheckSession("list sessions", f.Session)) {
				return
			}
		}
		for _, err := range failed {
			if !yield(transcript.SessionFile{}, err) {
				return
			}
		}
	}
}

// Header reads a session of at most the given size whole. For a larger session, it reads only the session's row, which does not
// show where the conversation ends in the stream.
func (c *Transcripts) Header(ctx context.Context, file transcript.SessionFile, most int64) (transcript.SessionHeader, error) {
	const op = "read session"
	row, err := c.find(ctx, file.Session)
	if err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError(op, string(file.Session), err)
	}
	h := transcript.SessionHeader{Dir: row.Dir, Title: row.Title, Turns: -1, End: math.MaxInt64}
	if row.Size > most {
		return h, nil
	}
	s, err := c.read(ctx, op, segno.Source{Session: file.Session})
	if err != nil {
		return h, err
	}
	if h.Turns, h.End = len(s.Turns), 0; h.Turns > 0 {
		h.End, h.Title = s.Turns[h.Turns-1].To, cmp.Or(h.Title, s.Turns[0].Prompt)
	}
	return h, nil
}

// Running returns nothing: OpenCode does not show which sessions are open.
func (c *Transcripts) Running(context.Context) map[segno.SessionID]int { return nil }

// Retention returns false: OpenCode deletes no sessions.
func (c *Transcripts) Retention() (time.Duration, bool) { return 0, false }
