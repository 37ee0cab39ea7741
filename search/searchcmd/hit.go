package searchcmd

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/search"
	"github.com/dalsegno/segno/timeline"
)

// item is one hit. A later release may add fields, but removes none.
type item struct {
	Thread     segno.ThreadID       `json:"thread"` // "" for a session that segno did not record
	Title      string               `json:"title"`  // of the thread
	Checkpoint segno.CommitID       `json:"checkpoint"`
	Kind       segno.CheckpointKind `json:"kind"`
	Turn       int                  `json:"turn"`
	Time       time.Time            `json:"time"`
	Agent      string               `json:"agent"`
	Session    segno.SessionID      `json:"session"`
	Undone     bool                 `json:"undone"` // it is not on the line of the thread's head
	Prompt     string               `json:"prompt"` // the beginning of the turn's prompt
	Field      string               `json:"field"`
	search.Excerpt
	Score   float64           `json:"score"`
	Missing []string          `json:"missing,omitempty"` // the words that the field does not have
	Touched []history.Touched `json:"touched,omitempty"` // of --changed and --deleted
	Line    *lineItem         `json:"line,omitempty"`    // of --line
}

// lineItem is a line that the checkpoint added or removed.
type lineItem struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"`
	Number    int    `json:"number"` // in the file after the checkpoint, or before it if it is removed
	Text      string `json:"text"`
	Action    string `json:"action"` // "added" or "removed"
}

// maxText is the number of bytes of a prompt or a line in a hit.
const maxText = 200

// label is the name of the checkpoint.
func (x *item) label() string {
	if x.Checkpoint == "" {
		return cli.Label(&segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: x.Turn})
	}
	return cli.Label(&segno.Checkpoint{ID: x.Checkpoint, Kind: x.Kind, Turn: x.Turn})
}

// searching is one search under way.
type searching struct {
	*app
	store *local.Store
	index *search.Index
	query *search.Query
	flags *flags

	reader search.Reader
	fresh  search.Freshness
	took   time.Duration
	agents map[string]segno.Transcript
	turns  map[string][]search.SessionTurn // of sessions, by id and path
	titles map[segno.ThreadID]string
	lines  map[segno.ThreadID]map[segno.CommitID]bool
}

// run updates the index and searches, again if a part of the index was damaged.
func (s *searching) run(ctx context.Context, first int) (res search.Result, err error) {
	s.reader = search.ReaderOf(s.store, s.store.Transcripts())
	s.titles, s.lines = map[segno.ThreadID]string{}, map[segno.ThreadID]map[segno.CommitID]bool{}
	for {
		deadline := time.Now().Add(s.flags.wait)
		if s.fresh, err = s.index.Update(ctx, &s.reader, deadline, s.Count("indexed", "checkpoint")); err != nil {
			return res, err
		}
		if s.flags.all {
			if err := s.updateSessions(ctx, deadline); err != nil {
				return res, err
			}
		}
		s.Bar.Erase()
		started := time.Now()
		res, err = s.index.Search(s.query, first, s.flags.limit, deadline, func(h *search.Hit) ([]string, error) { return s.texts(ctx, h) })
		if s.took = time.Since(started); !search.IsDamaged(err) {
			return res, err
		}
	}
}

// texts returns the texts of a hit.
func (s *searching) texts(ctx context.Context, h *search.Hit) ([]string, error) {
	if h.Commit == "" {
		turn, err := s.sessionTurn(ctx, h)
		return turn.Text[h.Field], err
	}
	c, err := s.reader.Checkpoint(ctx, h.Commit)
	if err != nil {
		return nil, err
	}
	if h.Field == search.Renamed && s.flags.deleted != "" {
		return s.formerPaths(ctx, c)
	}
	text, err := s.reader.Text(ctx, c, h.Field)
	if err != nil {
		return nil, err
	}
	return text[h.Field], nil
}

// formerPaths returns the paths that a checkpoint gave other names.
func (s *searching) formerPaths(ctx context.Context, c *segno.Checkpoint) (paths []string, err error) {
	changes, err := s.reader.Finder.Changes(ctx, c)
	for _, x := range changes {
		if x.Action == timeline.Renamed {
			paths = append(paths, x.From)
		}
	}
	return paths, err
}

// items returns the items of a hit. A hit of --line has one for each line.
func (s *searching) items(ctx context.Context, h *search.Hit) ([]item, error) {
	if h.Commit == "" {
		return s.sessionItem(ctx, h)
	}
	c, err := s.reader.Checkpoint(ctx, h.Commit)
	if err != nil {
		return nil, err
	}
	x := item{Thread: c.Thread, Checkpoint: c.ID, Kind: c.Kind, Turn: c.Turn, Time: c.Time, Agent: c.Agent, Field: h.Field.String(),
		Prompt: history.Cut(timeline.Title(c.Prompt), maxText), Score: h.Score, Missing: h.Missing}
	if c.Session != nil {
		x.Session = c.Session.Session
	}
	if x.Title, err = s.title(ctx, c.Thread); err != nil {
		return nil, err
	}
	isOnLine, err := s.isOnLine(ctx, c)
	if err != nil {
		return nil, err
	}
	x.Undone = !isOnLine
	switch {
	case s.flags.line != "":
		return s.lineItems(ctx, x, c, h.Field)
	case h.Field >= search.Created:
		x.Touched, err = s.touched(ctx, c, h.Field)
	default:
		var text *search.Text
		if text, err = s.reader.Text(ctx, c, h.Field); err == nil {
			x.Excerpt = s.query.Excerpt(h.Field, text[h.Field])
		}
	}
	return []item{x}, err
}

// touched returns the changes of a field that the query is about, with their calls.
func (s *searching) touched(ctx context.Context, c *segno.Checkpoint, f search.Field) ([]history.Touched, error) {
	changes, err := s.reader.Finder.Changes(ctx, c)
	if err != nil {
		return nil, err
	}
	changes = slices.DeleteFunc(changes, func(x timeline.PathChange) bool {
		paths := []string{x.Path, x.From}
		if x.Action != timeline.Renamed {
			paths = paths[:1]
		} else if s.flags.deleted != "" {
			paths = paths[1:]
		}
		return string(x.Action) != f.String() || !s.query.Matches(f, paths)
	})
	if err := s.reader.Finder.FindCalls(ctx, c, changes); err != nil {
		return nil, err
	}
	return history.TouchedPaths(changes), nil
}

func (s *searching) lineItems(ctx context.Context, x item, c *segno.Checkpoint, f search.Field) (all []item, err error) {
	found, err := s.reader.LinesWith(ctx, c, s.flags.line)
	for _, l := range found {
		if l.IsRemoved != (f == search.Removed) {
			continue
		}
		path := l.Change.Path
		one := x
		one.Line = &lineItem{Path: path, PathBytes: segno.PathBytes(path), Number: l.Number, Text: history.Cut(l.Text, maxText), Action: f.String()}
		all = append(all, one)
	}
	return all, err
}

// title returns the title of a thread.
func (s *searching) title(ctx context.Context, id segno.ThreadID) (string, error) {
	if title, ok := s.titles[id]; ok {
		return title, nil
	}
	t, _, err := segno.FindThread(ctx, s.store, id)
	s.titles[id] = history.Cut(timeline.Title(t.Title), maxText)
	return s.titles[id], err
}

// isOnLine reports whether a checkpoint is on the line of its thread's head.
func (s *searching) isOnLine(ctx context.Context, c *segno.Checkpoint) (bool, error) {
	line := s.lines[c.Thread]
	if line == nil {
		line = map[segno.CommitID]bool{}
		head, err := s.store.Head(ctx, c.Thread)
		if err != nil {
			return false, err
		}
		all, err := s.store.Load(ctx, head.Head, segno.Window{})
		if err != nil {
			return false, err
		}
		for i := range all.Commits {
			line[all.Commits[i].ID] = true
		}
		s.lines[c.Thread] = line
	}
	return line[c.ID], nil
}
