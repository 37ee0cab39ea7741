package web

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
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

// fieldPath is the field of a hit that is a path. The other fields are those of the index.
const fieldPath = "path"

type searchParams struct {
	Q      string         `query:"q" max:"200"`
	What   string         `query:"what" enum:"prompt answer tool output path created changed deleted renamed"`
	Thread segno.ThreadID `query:"thread" max:"1024"`
	Limit  int            `query:"limit" default:"50" min:"1" max:"200"`
	Cursor string         `query:"cursor" max:"2048"`
}

// The limits of one request for a search.
const (
	searchTime    = 700 * time.Millisecond
	indexTime     = 400 * time.Millisecond // for the update of the index
	searchThreads = 10_000
)

// search finds words with the index, the best hits first, and then by a scan what the index cannot find: matches that begin
// inside of a word. Without an index, and while the index lacks checkpoints, the scan finds everything. A request ends after
// searchTime or at the limit of hits. It does not search the content of files.
func (s *Server) search(ctx context.Context, p *searchParams) (searchResult, error) {
	release, err := acquire(ctx, s.searches)
	if err != nil {
		return searchResult{}, err
	}
	defer release()
	started := time.Now()
	c := &searching{server: s, reader: s.searchReader(), needle: strings.ToLower(search.OneLine(p.Q)), what: p.What, limit: p.Limit, until: started.Add(cmp.Or(s.searchTime, searchTime)),
		lines: map[segno.ThreadID]*lineReader{}, result: searchResult{Hits: []hit{}, Complete: true}}
	defer c.close()
	isForAction := search.FieldNamed(p.What) >= search.Created // "all that was deleted" is a question without a name
	if strings.TrimSpace(p.Q) == "" && !isForAction {
		return c.result, invalidParameter("q", "it is empty")
	}
	at, err := parseCursor(p.Cursor)
	if err == nil {
		err = c.run(ctx, p.Thread, at)
	}
	c.result.ElapsedMS = time.Since(started).Milliseconds()
	return c.result, err
}

// searchCursor is the position at which a search continues: behind some hits of the index, or at a checkpoint of the scan.
type searchCursor struct {
	isIndexed bool // the index answers, and the scan leaves out its hits
	hits      int
	thread    segno.ThreadID // of the scan, "" if it has not begun
	seq       int64
}

// String returns the cursor for a client: +:HITS, or THREAD:SEQ with a plus sign in front if the index answers.
func (c searchCursor) String() string {
	sign := ""
	if c.isIndexed {
		sign = "+"
	}
	return fmt.Sprintf("%s%s:%d", sign, c.thread, max(c.seq, int64(c.hits)))
}

func parseCursor(text string) (c searchCursor, err error) {
	if text == "" {
		return searchCursor{isIndexed: true}, nil
	}
	rest, isIndexed := strings.CutPrefix(text, "+")
	id, number, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(number, 10, 62)
	if err != nil || id == "" && !isIndexed {
		return c, invalidParameter("cursor", "malformed")
	}
	c = searchCursor{isIndexed: isIndexed, thread: segno.ThreadID(id), seq: int64(n)}
	if id == "" {
		c.hits, c.seq = int(n), 0
	}
	return c, nil
}

// searching is one search under way.
type searching struct {
	server *Server
	reader search.Reader
	needle string        // in lower case, with single spaces
	what   string        // the only field or action, or ""
	words  *search.Query // of the needle; nil if the index does not answer
	limit  int
	until  time.Time
	lines  map[segno.ThreadID]*lineReader
	result searchResult
}

func (c *searching) close() {
	for _, l := range c.lines {
		l.close()
	}
}

// run adds the hits from a cursor on.
func (c *searching) run(ctx context.Context, only segno.ThreadID, at searchCursor) error {
	words, hasWords := search.TextQuery(c.needle)
	if at.isIndexed = at.isIndexed && hasWords; at.isIndexed {
		c.words = &words
	}
	if at.isIndexed && at.thread == "" {
		words.Thread, words.Now = only, c.server.Now().Unix()
		isFull, err := c.findWords(ctx, at.hits)
		if err != nil || isFull {
			return err
		}
	}
	return c.scan(ctx, only, at.thread, at.seq)
}

// findWords adds the hits of the index behind the first ones. isFull is set if there may be more. If the index lacks
// checkpoints or does not end in time, findWords adds none, and the scan answers alone.
func (c *searching) findWords(ctx context.Context, first int) (isFull bool, err error) {
	q, index := c.words, c.server.searchIndex()
	for f := search.Prompt; f <= search.Renamed; f++ {
		if c.wants(f) {
			q.Fields = append(q.Fields, f)
		}
	}
	q.ByTime = len(q.Fields) > 0 && q.Fields[0] >= search.Created
	for index != nil {
		fresh, err := index.Update(ctx, &c.reader, time.Now().Add(cmp.Or(c.server.indexTime, indexTime)), nil)
		if err != nil {
			return false, err
		}
		if fresh.Pending > 0 {
			break
		}
		found, err := index.Search(q, first, c.limit, c.until, func(h *search.Hit) ([]string, error) { return c.texts(ctx, h) })
		if search.IsDamaged(err) {
			continue
		}
		if isFull = len(found.Hits) == c.limit; err == nil && found.IsCapped && !isFull {
			break // the scan finds the hits that the index left out, and repeats those of earlier pages
		}
		for i := 0; i < len(found.Hits) && err == nil; i++ {
			err = c.addIndexed(ctx, &found.Hits[i])
		}
		if isFull {
			c.result.Complete, c.result.Next = false, searchCursor{isIndexed: true, hits: first + c.limit}.String()
		}
		return isFull, err
	}
	c.words = nil
	return false, nil
}

// texts returns the texts of a hit of the index.
func (c *searching) texts(ctx context.Context, h *search.Hit) ([]string, error) {
	cp, err := c.reader.Checkpoint(ctx, h.Commit)
	if err != nil {
		return nil, err
	}
	text, err := c.reader.Text(ctx, cp, h.Field)
	if err != nil {
		return nil, err
	}
	return text[h.Field], nil
}

// addIndexed adds a hit of the index.
func (c *searching) addIndexed(ctx context.Context, h *search.Hit) error {
	cp, err := c.reader.Checkpoint(ctx, h.Commit)
	if err == nil {
		var t segno.Thread
		if t, _, err = segno.FindThread(ctx, c.server.Store, cp.Thread); err == nil {
			isField := func(f search.Field) bool { return f == h.Field }
			err = c.checkpoint(ctx, &t, cp, isField, c.matchWords)
		}
	}
	switch {
	case isDamage(err):
		c.result.Damaged++
	case segno.KindOf(err) != segno.KindNotFound: // or it was deleted meanwhile
		return err
	}
	return nil
}

// wants reports whether the search is for a field.
func (c *searching) wants(f search.Field) bool {
	switch c.what {
	case "":
		return f != search.Added && f != search.Removed
	case fieldPath:
		return f >= search.Created
	case search.Deleted.String(): // a path that has another name now is no longer where it was
		return f == search.Deleted || f == search.Renamed
	}
	return f.String() == c.what
}

// matcher returns the excerpt of the first of some texts of a field that matches, and its index.
type matcher func(f search.Field, texts []string) (x search.Excerpt, at int, ok bool)

// matchWords matches as the index does.
func (c *searching) matchWords(f search.Field, texts []string) (search.Excerpt, int, bool) {
	for i := range texts {
		if c.words.Matches(f, texts[i:i+1]) {
			x, ok := search.FindText(texts[i], c.needle)
			if !ok {
				x = c.words.Excerpt(f, texts[i:i+1])
			}
			return x, i, true
		}
	}
	return search.Excerpt{}, 0, false
}

// matchText matches the needle anywhere in a text, unless the index found the field by its words.
func (c *searching) matchText(f search.Field, texts []string) (search.Excerpt, int, bool) {
	isIndexed := c.words != nil && c.words.Matches(f, texts)
	for i := 0; i < len(texts) && !isIndexed; i++ {
		if x, ok := search.FindText(texts[i], c.needle); ok {
			return x, i, true
		}
	}
	return search.Excerpt{}, 0, false
}

// searchReader returns the reader of the texts of checkpoints.
func (s *Server) searchReader() search.Reader {
	return search.Reader{Store: s.Store, Turns: *s.source(), Finder: timeline.PathFinder{Store: s.Store, Diff: s.compare}, Content: s.Store.Objects().Get}
}

// searchIndex returns the index of a store on this machine, or nil for another store. Only one search runs at a time.
func (s *Server) searchIndex() *search.Index {
	if s.Local == nil {
		return nil
	}
	if s.index == nil {
		s.index = search.OfStore(s.Local)
	}
	return s.index
}
