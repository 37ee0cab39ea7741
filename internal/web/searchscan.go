package web

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/search"
	"github.com/dalsegno/segno/timeline"
)

// scan scans the threads, the most recently changed first, and each from its newest checkpoint, from a cursor on. It does not
// repeat a thread that moved to the front since.
func (c *searching) scan(ctx context.Context, only, after segno.ThreadID, seq int64) error {
	var list []segno.Thread
	for t, err := range c.server.Store.Threads(ctx, segno.ThreadQuery{Limit: searchThreads, IDPrefix: string(only)}) {
		if err != nil {
			return err
		}
		if only == "" || t.ID == only {
			list = append(list, t)
		}
	}
	if only != "" && len(list) == 0 {
		return segno.NewError(segno.KindNotFound, "find thread", string(only), nil)
	}
	start := 0
	for i := range list {
		if list[i].ID == after {
			start = i
		}
	}
	for i := range list[start:] {
		t := &list[start+i]
		from := int64(0)
		if t.ID == after {
			from = seq
		}
		done, err := c.scanThread(ctx, t, from)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// scanThread scans a thread below a seq, or all of it if the seq is 0. It returns true if the search ends there.
func (c *searching) scanThread(ctx context.Context, t *segno.Thread, below int64) (done bool, err error) {
	amended := map[segno.CommitID]bool{}
	for cp, err := range c.server.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID, Before: below}) {
		if err != nil {
			return true, err
		}
		amended[cp.Amends] = true
		if amended[cp.ID] {
			continue // a later checkpoint replaces it
		}
		if err := c.checkpoint(ctx, t, &cp, c.wants, c.matchText); isDamage(err) {
			c.result.Damaged++
		} else if err != nil {
			return true, err
		}
		if len(c.result.Hits) >= c.limit || time.Now().After(c.until) {
			next := searchCursor{isIndexed: c.words != nil, thread: t.ID, seq: cp.Seq}
			c.result.Complete, c.result.Next = false, next.String()
			return true, nil
		}
	}
	return false, nil
}

// checkpoint searches some fields of a checkpoint. It keeps its hits even if a later part of it is damaged.
func (c *searching) checkpoint(ctx context.Context, t *segno.Thread, cp *segno.Checkpoint, wants func(search.Field) bool, match matcher) error {
	first := len(c.result.Hits)
	err := c.conversation(ctx, cp, wants, match)
	if err == nil || isDamage(err) {
		err = errors.Join(err, c.paths(ctx, cp, wants, match))
	}
	hits := c.result.Hits[first:]
	if len(hits) == 0 {
		return err
	}
	line := c.lines[t.ID]
	if line == nil {
		line = &lineReader{store: c.server.Store, thread: t.ID}
		c.lines[t.ID] = line
	}
	isOnLine, lineErr := line.has(ctx, cp)
	for i := range hits {
		x := &hits[i]
		x.Thread, x.Title, x.Checkpoint, x.Kind, x.Turn, x.Time = t.ID, history.Cut(t.Title, maxTitle), cp.ID, cp.Kind, cp.Turn, cp.Time
		x.Prompt, x.Undone = history.Cut(timeline.Title(cp.Prompt), maxTitle), !isOnLine
	}
	return errors.Join(err, lineErr)
}

// conversation searches the prompt, the calls with their outputs, and the answers.
func (c *searching) conversation(ctx context.Context, cp *segno.Checkpoint, wants func(search.Field) bool, match matcher) error {
	fields := slices.DeleteFunc([]search.Field{search.Prompt, search.Command, search.Output, search.Answer}, func(f search.Field) bool { return !wants(f) })
	if len(fields) == 0 || cp.Kind != segno.CheckpointTurn && cp.Kind != segno.CheckpointStep {
		return nil
	}
	turn, err := c.reader.Turn(ctx, cp)
	if isDamage(err) {
		turn = &turns.Turn{Prompt: cp.Prompt}
	} else if err != nil {
		return err
	}
	for _, f := range fields {
		texts, tools := textsOf(turn, f)
		if x, i, ok := match(f, texts); ok {
			c.result.Hits = append(c.result.Hits, hit{Field: f.String(), Tool: history.Cut(tools[i], maxTitle), Excerpt: x})
		}
	}
	return err
}

// textsOf returns the texts of a field of a turn, with the tool of each.
func textsOf(turn *turns.Turn, f search.Field) (texts, tools []string) {
	add := func(tool string, more ...string) {
		for _, text := range more {
			texts, tools = append(texts, text), append(tools, tool)
		}
	}
	if f == search.Prompt {
		add("", turn.Prompt)
	}
	for _, it := range turn.Items {
		switch {
		case it.Call != nil && f == search.Command:
			add(it.Call.Tool, append(it.Call.Texts(), it.Call.Tool)...)
		case it.Call != nil && f == search.Output:
			add(it.Call.Tool, it.Call.Result)
		case it.Call == nil && (it.Author == turns.Agent && f == search.Answer || it.Author == turns.User && f == search.Prompt):
			add("", it.Text)
		}
	}
	return texts, tools
}

// pathFields are the fields of changed paths, in the order of their hits.
func pathFields() []search.Field {
	return []search.Field{search.Deleted, search.Renamed, search.Created, search.Changed}
}

// paths searches the paths that a checkpoint changed, and adds the first one of each action.
func (c *searching) paths(ctx context.Context, cp *segno.Checkpoint, wants func(search.Field) bool, match matcher) error {
	if !slices.ContainsFunc(pathFields(), wants) {
		return nil
	}
	changes, err := c.reader.Finder.Changes(ctx, cp)
	if err != nil || len(changes) == 0 {
		return err
	}
	before, err := c.reader.Finder.Before(ctx, cp)
	if err != nil {
		return err
	}
	for _, f := range pathFields() {
		if _, _, ok := match(f, c.pathTexts(f, changes)); !ok || !wants(f) {
			continue
		}
		first := hit{Field: fieldPath, FilesBefore: before.ID, More: -1}
		for i := range changes {
			x, _, ok := match(f, c.pathTexts(f, changes[i:i+1]))
			if !ok {
				continue
			}
			if first.More++; first.More > 0 {
				continue
			}
			if err := c.reader.Finder.FindCalls(ctx, cp, changes[i:i+1]); err != nil {
				return err
			}
			first.Excerpt, first.Touched = x, &history.TouchedPaths(changes[i : i+1])[0]
		}
		if first.More >= 0 {
			c.result.Hits = append(c.result.Hits, first)
		}
	}
	return nil
}

// pathTexts returns the paths of changes with an action, with both names of one that was renamed. In a search for what was deleted,
// only the former name counts.
func (c *searching) pathTexts(f search.Field, changes []timeline.PathChange) (texts []string) {
	for i := range changes {
		x := &changes[i]
		if string(x.Action) != f.String() {
			continue
		}
		if f != search.Renamed || c.what != search.Deleted.String() {
			texts = append(texts, x.Path)
		}
		if f == search.Renamed {
			texts = append(texts, x.From)
		}
	}
	return texts
}

// lineReader reads the line of a thread's head from its newest commit, as far as its caller asks.
type lineReader struct {
	store  segno.Store
	thread segno.ThreadID
	next   func() (*segno.Node, error, bool)
	stop   func()
	read   map[segno.CommitID]bool
	lowest int64 // the seq of the oldest commit in read
}

// has reports whether a checkpoint is on the line. The caller asks for the checkpoints of the thread, newest first.
func (l *lineReader) has(ctx context.Context, cp *segno.Checkpoint) (bool, error) {
	if l.next == nil {
		head, err := l.store.Head(ctx, l.thread)
		if err != nil {
			return false, err
		}
		const window = 64
		l.next, l.stop = iter.Pull2(segno.Ancestors(ctx, l.store, head.Head, segno.Window{Last: window}))
		l.read, l.lowest = map[segno.CommitID]bool{}, math.MaxInt64
	}
	for l.lowest > cp.Seq {
		n, err, ok := l.next()
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		l.read[n.ID], l.lowest = true, n.Seq
	}
	return l.read[cp.ID], nil
}

func (l *lineReader) close() {
	if l.stop != nil {
		l.stop()
	}
}
