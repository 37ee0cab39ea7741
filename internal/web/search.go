package web

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
)

// searchResult has the hits that a search found in its time.
type searchResult struct {
	Hits      []hit  `json:"hits"`
	Complete  bool   `json:"complete"` // false if there may be more hits, from next on
	Next      string `json:"next"`     // "" at the end
	Damaged   int    `json:"damaged"`  // checkpoints that could not be read
	ElapsedMS int64  `json:"elapsed_ms"`
}

// hit is one match in a text. In each field of a checkpoint, only the first match is a hit.
type hit struct {
	Thread     segno.ThreadID `json:"thread"`
	Title      string         `json:"title"` // of the thread
	Checkpoint segno.CommitID `json:"checkpoint"`
	Turn       int            `json:"turn"`
	Time       time.Time      `json:"time"`
	Field      string         `json:"field"` // "prompt", "answer" or "tool"
	Before     string         `json:"before"`
	Match      string         `json:"match"`
	After      string         `json:"after"`
}

type searchParams struct {
	Q      string         `query:"q" max:"200" required:"true"`
	Thread segno.ThreadID `query:"thread" max:"1024"`
	Limit  int            `query:"limit" default:"50" min:"1" max:"200"`
	Cursor string         `query:"cursor" max:"2048"`
}

// The limits of one request for a search.
const (
	searchTime    = 700 * time.Millisecond
	searchThreads = 10_000
	hitContext    = 80 // bytes around a match
)

// search scans the threads, the most recently changed first, and each from its newest checkpoint.
// The cursor is the position at which the next request continues: a thread and a seq.
func (s *Server) search(ctx context.Context, p *searchParams) (searchResult, error) {
	release, err := acquire(ctx, s.searches)
	if err != nil {
		return searchResult{}, err
	}
	defer release()
	started := time.Now()
	scan := &scan{server: s, needle: strings.ToLower(p.Q), limit: p.Limit, until: started.Add(searchTime), result: searchResult{Hits: []hit{}, Complete: true}}
	if strings.TrimSpace(p.Q) == "" {
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
	needle string // in lower case
	limit  int
	until  time.Time
	result searchResult

	prompted turnOf // the turn whose prompt was searched last
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
	for cp, err := range c.server.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID, Before: below}) {
		if err != nil {
			return true, err
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

// checkpoint searches one checkpoint.
func (c *scan) checkpoint(ctx context.Context, t *segno.Thread, cp *segno.Checkpoint) error {
	if cp.Kind != segno.CheckpointTurn && cp.Kind != segno.CheckpointStep {
		return nil
	}
	if begun := (turnOf{t.ID, cp.Turn}); begun != c.prompted { // the steps of a turn have the same prompt
		c.prompted = begun
		c.field(t, cp, "prompt", cp.Prompt)
	}
	line, err := c.server.Store.Load(ctx, cp.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, it := range turns.Read(line.Commits[len(line.Commits)-1:], cp).Items {
		field, text := "", it.Text
		switch {
		case it.Call != nil:
			field, text = "tool", it.Call.Tool+" "+it.Call.InputText()+"\n"+it.Call.Result
		case it.Author == turns.Agent:
			field = "answer"
		}
		if field != "" && !found[field] {
			found[field] = c.field(t, cp, field, text)
		}
	}
	return nil
}

// field adds a hit if a text contains the needle.
func (c *scan) field(t *segno.Thread, cp *segno.Checkpoint, field, text string) bool {
	at, length := indexFold(text, c.needle)
	if at < 0 {
		return false
	}
	c.result.Hits = append(c.result.Hits, hit{Thread: t.ID, Title: history.Cut(t.Title, maxTitle), Checkpoint: cp.ID, Turn: cp.Turn, Time: cp.Time, Field: field,
		Before: lastBytes(text[:at], hitContext), Match: text[at : at+length], After: history.Cut(text[at+length:], hitContext)})
	return true
}

// indexFold returns the first match of a lower-case needle in a text, and the length of the
// match.
func indexFold(text, needle string) (at, length int) {
	lower := strings.ToLower(text)
	i := strings.Index(lower, needle)
	if i < 0 {
		return -1, 0
	}
	if len(lower) == len(text) {
		return i, len(needle)
	}
	// Some characters have a different length in lower case: count characters instead of bytes.
	skip, n := utf8.RuneCountInString(lower[:i]), utf8.RuneCountInString(needle)
	start, end := -1, len(text)
	for at := range text {
		if skip == 0 && start < 0 {
			start = at
		}
		if skip == -n {
			end = at
			break
		}
		skip--
	}
	if start < 0 {
		return -1, 0
	}
	return start, end - start
}

// lastBytes returns the last n bytes of a text, or fewer, so that the result begins with a whole
// character.
func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - n
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}
