package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/search"
	"github.com/dalsegno/segno/timeline"
)

// searchResult has the hits that a search found in its time.
type searchResult struct {
	Hits      []hit  `json:"hits"`
	Complete  bool   `json:"complete"` // false if there may be more hits, from next on
	Next      string `json:"next"`     // "" at the end
	Damaged   int    `json:"damaged"`  // checkpoints that could not be read
	ElapsedMS int64  `json:"elapsed_ms"`
}

// hit is one match. In each field of a checkpoint, only the first match is a hit. A changed path is a field for each
// action: a turn can delete one matching path and create another.
type hit struct {
	Thread     segno.ThreadID       `json:"thread"`
	Title      string               `json:"title"` // of the thread
	Checkpoint segno.CommitID       `json:"checkpoint"`
	Kind       segno.CheckpointKind `json:"kind"`
	Turn       int                  `json:"turn"`
	Time       time.Time            `json:"time"`
	Undone     bool                 `json:"undone"` // it is not on the line of the thread's head
	Prompt     string               `json:"prompt"` // the beginning of the turn's prompt
	Field      string               `json:"field"`  // "prompt", "answer", "tool", "output" or "path"
	Tool       string               `json:"tool"`   // of the fields tool and output: the name of the tool
	search.Excerpt
	Touched *history.Touched `json:"touched"` // of the field path: the changed path, and the call that changed it
	// FilesBefore is the checkpoint with the files as they were before, of the field path.
	FilesBefore segno.CommitID `json:"files_before"`
	More        int            `json:"more"` // of the field path: how many other matching paths have the same action
}

// The fields of a hit.
const (
	fieldPrompt = "prompt"
	fieldAnswer = "answer"
	fieldTool   = "tool"   // the input of a call: the command as typed, the path, the other values
	fieldOutput = "output" // the result of a call
	fieldPath   = "path"   // a path that the checkpoint changed
)

type searchParams struct {
	Q      string         `query:"q" max:"200"`
	What   string         `query:"what" enum:"prompt answer tool output path created changed deleted renamed"`
	Thread segno.ThreadID `query:"thread" max:"1024"`
	Limit  int            `query:"limit" default:"50" min:"1" max:"200"`
	Cursor string         `query:"cursor" max:"2048"`
}

// actions returns the actions of changes of paths, in the order of their hits.
func actions() []timeline.Action {
	return []timeline.Action{timeline.Deleted, timeline.Renamed, timeline.Created, timeline.Changed}
}

// The limits of one request for a search.
const (
	searchTime    = 700 * time.Millisecond
	searchThreads = 10_000
)

// search scans the threads, the most recently changed first, and each from its newest checkpoint. It ends after
// searchTime or at the limit of hits. The cursor is the position at which the next request continues: a thread and a seq.
//
// For each checkpoint it reads the entries of one commit, and compares its tree with the parent's, which reads the
// directories that differ. A filter for one of both omits the other. It does not search the content of files.
func (s *Server) search(ctx context.Context, p *searchParams) (searchResult, error) {
	release, err := acquire(ctx, s.searches)
	if err != nil {
		return searchResult{}, err
	}
	defer release()
	started := time.Now()
	scan := &scan{server: s, needle: strings.ToLower(search.OneLine(p.Q)), what: p.What, limit: p.Limit, until: started.Add(searchTime),
		finder: timeline.PathFinder{Store: s.Store, Diff: s.compare}, result: searchResult{Hits: []hit{}, Complete: true}}
	isForAction := slices.Contains(actions(), timeline.Action(p.What)) // "all that was deleted" is a question without a name
	if strings.TrimSpace(p.Q) == "" && !isForAction {
		return scan.result, invalidParameter("q", "it is empty")
	}
	var after segno.ThreadID
	var seq int64
	if p.Cursor != "" {
		id, number, _ := strings.Cut(p.Cursor, ":")
		if _, err := fmt.Sscan(number, &seq); err != nil || id == "" {
			return scan.result, invalidParameter("cursor", "malformed")
		}
		after = segno.ThreadID(id)
	}
	err = scan.threads(ctx, p.Thread, after, seq)
	scan.result.ElapsedMS = time.Since(started).Milliseconds()
	return scan.result, err
}

// scan is one search under way.
type scan struct {
	server *Server
	needle string // in lower case, with single spaces
	what   string // the only field or action, or ""
	limit  int
	until  time.Time
	finder timeline.PathFinder
	result searchResult

	prompted turnOf // the turn whose prompt was searched last
	line     lineReader
}

// turnOf is a turn of a thread.
type turnOf struct {
	thread segno.ThreadID
	turn   int
}

// threads scans the threads from a cursor on. It does not repeat a thread that moved to the front
// since.
func (c *scan) threads(ctx context.Context, only, after segno.ThreadID, seq int64) error {
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
		done, err := c.thread(ctx, t, from)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// thread scans a thread below a seq, or all of it if the seq is 0. It returns true if the search ends there.
func (c *scan) thread(ctx context.Context, t *segno.Thread, below int64) (done bool, err error) {
	c.line = lineReader{store: c.server.Store, thread: t.ID}
	defer c.line.close()
	amended := map[segno.CommitID]bool{}
	for cp, err := range c.server.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID, Before: below}) {
		if err != nil {
			return true, err
		}
		amended[cp.Amends] = true
		if amended[cp.ID] {
			continue // a later checkpoint replaces it
		}
		if err := c.checkpoint(ctx, t, &cp); isDamage(err) {
			c.result.Damaged++
		} else if err != nil {
			return true, err
		}
		if len(c.result.Hits) >= c.limit || time.Now().After(c.until) {
			c.result.Complete, c.result.Next = false, fmt.Sprintf("%s:%d", t.ID, cp.Seq)
			return true, nil
		}
	}
	return false, nil
}

// checkpoint searches one checkpoint. It marks its hits even if a later part of it is damaged.
func (c *scan) checkpoint(ctx context.Context, t *segno.Thread, cp *segno.Checkpoint) error {
	first := len(c.result.Hits)
	for _, scan := range []func(context.Context, *segno.Checkpoint) error{c.prompt, c.paths, c.entries} {
		if err := scan(ctx, cp); err != nil {
			return errors.Join(err, c.describe(ctx, t, cp, c.result.Hits[first:]))
		}
	}
	return c.describe(ctx, t, cp, c.result.Hits[first:])
}

// describe sets the fields that all hits of a checkpoint have in common.
func (c *scan) describe(ctx context.Context, t *segno.Thread, cp *segno.Checkpoint, hits []hit) error {
	if len(hits) == 0 {
		return nil
	}
	isOnLine, err := c.line.has(ctx, cp)
	if err != nil {
		return err
	}
	for i := range hits {
		x := &hits[i]
		x.Thread, x.Title, x.Checkpoint, x.Kind, x.Turn, x.Time = t.ID, history.Cut(t.Title, maxTitle), cp.ID, cp.Kind, cp.Turn, cp.Time
		x.Prompt, x.Undone = history.Cut(timeline.Title(cp.Prompt), maxTitle), !isOnLine
	}
	return nil
}

func isTurnOrStep(cp *segno.Checkpoint) bool {
	return cp.Kind == segno.CheckpointTurn || cp.Kind == segno.CheckpointStep
}

// wants reports whether the search is for one of the fields.
func (c *scan) wants(fields ...string) bool { return c.what == "" || slices.Contains(fields, c.what) }

// prompt searches the prompt of a turn once, because the steps of a turn have the same one.
func (c *scan) prompt(_ context.Context, cp *segno.Checkpoint) error {
	begun := turnOf{cp.Thread, cp.Turn}
	if isTurnOrStep(cp) && begun != c.prompted && c.wants(fieldPrompt) {
		c.prompted = begun
		c.field(fieldPrompt, "", cp.Prompt)
	}
	return nil
}

// entries searches the answers, calls and outputs of a checkpoint.
func (c *scan) entries(ctx context.Context, cp *segno.Checkpoint) error {
	if !isTurnOrStep(cp) || !c.wants(fieldPrompt, fieldAnswer, fieldTool, fieldOutput) {
		return nil
	}
	line, err := c.server.Store.Load(ctx, cp.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	add := func(field, tool string, texts ...string) {
		for _, text := range texts {
			if !found[field] && c.wants(field) {
				found[field] = c.field(field, tool, text)
			}
		}
	}
	for _, it := range turns.Read(line.Commits[len(line.Commits)-1:], cp).Items {
		switch {
		case it.Call != nil:
			add(fieldTool, it.Call.Tool, append(it.Call.Texts(), it.Call.Tool)...)
			add(fieldOutput, it.Call.Tool, it.Call.Result)
		case it.Author == turns.Agent:
			add(fieldAnswer, "", it.Text)
		case it.Author == turns.User: // typed while the turn ran
			add(fieldPrompt, "", it.Text)
		}
	}
	return nil
}

// field adds a hit if a text contains the needle.
func (c *scan) field(field, tool, text string) bool {
	x, ok := search.FindText(text, c.needle)
	if ok {
		c.result.Hits = append(c.result.Hits, hit{Field: field, Tool: history.Cut(tool, maxTitle), Excerpt: x})
	}
	return ok
}

// paths searches the paths that a checkpoint changed, and adds the first one of each action. A path that has another
// name now is also no longer where it was, so it answers a question for what was deleted.
func (c *scan) paths(ctx context.Context, cp *segno.Checkpoint) error {
	if !c.wants(append([]string{fieldPath}, actionNames()...)...) {
		return nil
	}
	changes, err := c.finder.Changes(ctx, cp)
	if err != nil || len(changes) == 0 {
		return err
	}
	before, err := c.finder.Before(ctx, cp)
	if err != nil {
		return err
	}
	for _, action := range actions() {
		first := hit{Field: fieldPath, FilesBefore: before.ID, More: -1}
		for i := range changes {
			x, ok := c.pathMatch(&changes[i], action)
			if !ok {
				continue
			}
			if first.More++; first.More > 0 {
				continue
			}
			if err := c.finder.FindCalls(ctx, cp, changes[i:i+1]); err != nil {
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

// pathMatch returns the excerpt of the path of a change, if the change is of this action and answers the question.
func (c *scan) pathMatch(x *timeline.PathChange, action timeline.Action) (search.Excerpt, bool) {
	isAsked := c.what == "" || c.what == fieldPath || c.what == string(action)
	isMoved := action == timeline.Renamed && c.what == string(timeline.Deleted)
	if x.Action != action || !isAsked && !isMoved {
		return search.Excerpt{}, false
	}
	if to, ok := search.FindText(x.Path, c.needle); ok && !isMoved {
		return to, true
	}
	from, ok := search.FindText(x.From, c.needle)
	return from, ok && action == timeline.Renamed
}

// actionNames returns the actions as a request names them.
func actionNames() (names []string) {
	for _, a := range actions() {
		names = append(names, string(a))
	}
	return names
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
