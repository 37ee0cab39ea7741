package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
)

// corpus has documents and the linear scan that is the model of the index.
type corpus struct {
	random *rand.Rand
	units  []Unit
	texts  []*Text
}

func newCorpus(seed uint64) *corpus { return &corpus{random: rand.New(rand.NewPCG(seed, 1))} }

func vocabulary() []string {
	return []string{"rate", "limiter", "rateLimiter", "rate_limiter", "RateLIMITer", "src/limit.go", "the", "The", "a", "err", "error", "HTTPServer", "é", "İstanbul", "検索", "x1",
		"&&", "rm -rf", ".env", "foo", "foobar", "fooBar", "_", "__", "limit", "limits", "\n", "  ", strings.Repeat("long", 40), strings.Repeat("aB", 90)}
}

func (c *corpus) words(most int) string {
	all := vocabulary()
	var b strings.Builder
	for range c.random.IntN(most) + 1 {
		b.WriteString(all[c.random.IntN(len(all))])
		b.WriteString([]string{" ", " ", " ", ", ", "-", ""}[c.random.IntN(6)])
	}
	return b.String()
}

// grow adds units.
func (c *corpus) grow(n int) {
	for range n {
		t := &Text{}
		for _, f := range []Field{Prompt, Answer, Command, Output, Added, Created} {
			for range c.random.IntN(3) {
				t.add(f, c.words(12))
			}
		}
		i := len(c.units)
		c.units = append(c.units, Unit{Commit: segno.CommitID(fmt.Sprint("c", i)), Seq: int64(i + 1), Time: int64(1e9 + c.random.IntN(1e8))})
		c.texts = append(c.texts, t)
	}
}

// add adds the units from one to another to an index, as one segment.
func (c *corpus) add(t testing.TB, x *Index, from, to int) {
	b := newBuilder()
	b.addSource(Source{Thread: "t", From: int64(from + 1), To: int64(to)})
	for i := from; i < to; i++ {
		b.add(c.units[i], c.texts[i])
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.addSegment(b.content()); err != nil {
		t.Fatal(err)
	}
}

// scan returns the documents that match a query.
func (c *corpus) scan(q *Query) (found []string) {
	for i, t := range c.texts {
		for _, f := range q.fields() {
			if len(t[f]) > 0 && q.Matches(f, t[f]) {
				found = append(found, fmt.Sprint(c.units[i].Commit, " ", f))
			}
		}
	}
	slices.Sort(found)
	return found
}

// ask returns the documents with which an index answers a query.
func (c *corpus) ask(t testing.TB, x *Index, q *Query, first, limit int) (found []string, res Result) {
	t.Helper()
	res, err := x.Search(q, first, limit, time.Now().Add(time.Hour), func(h *Hit) ([]string, error) { return c.texts[h.Seq-1][h.Field], nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range res.Hits {
		if len(h.Missing) == 0 {
			found = append(found, fmt.Sprint(h.Commit, " ", h.Field))
		}
	}
	return found, res
}

func (c *corpus) query(t testing.TB) (text string, q Query) {
	for {
		text = ""
		for range c.random.IntN(3) + 1 {
			words := strings.Join(strings.Fields(c.words(3)), " ")
			switch c.random.IntN(5) {
			case 0:
				text += ` "` + words + `"`
			case 1:
				text += " " + []string{"fo*", "rateL*", "limit*", "src/li*", "a*", "é*"}[c.random.IntN(6)]
			case 2:
				text += " " + []string{`/foo/`, `/(rate|limit)/`, `/ foo the /`, `/\berror\b/`, `/[lL]imiter, a/`, `/^foo/`, `/(?i)HTTPS/`}[c.random.IntN(7)]
			default:
				text += " " + words
			}
		}
		q, err := Parse(text)
		if err == nil {
			all := []Field{Prompt, Answer, Command, Output, Added, Created}
			c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			q.Fields = all[:c.random.IntN(len(all)+1)]
			return text, q
		}
	}
}

// TestTheIndexAnswersLikeAScan compares random queries on random documents, in segments that grow and merge, with a scan of all
// texts.
func TestTheIndexAnswersLikeAScan(t *testing.T) {
	corpora := 3
	if testing.Short() {
		corpora = 1
	}
	for _, seed := range soak.Seeds(t, corpora, 200) {
		c := newCorpus(seed)
		x := Open(Config{Dir: t.TempDir(), FS: vfs.OS})
		defer x.Close()
		for range 12 {
			from := len(c.units)
			c.grow(c.random.IntN(60) + 1)
			c.add(t, x, from, len(c.units))
			x.mu.Lock()
			err := x.mergeSmall()
			x.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				text, q := c.query(t)
				want := c.scan(&q)
				got, res := c.ask(t, x, &q, 0, 5000)
				slices.Sort(got)
				if !slices.Equal(got, want) || res.Total != len(want) || res.IsCapped {
					t.Fatalf("seed %d: %q in %v finds %d of %d (total %d, capped %t): %v, want %v", seed, text, q.Fields, len(got), len(want), res.Total, res.IsCapped, got, want)
				}
			}
		}
		if n := len(x.segs); n >= mergeCount {
			t.Errorf("%d segments remain", n)
		}
	}
}

// TestTheBestComeFirst checks that a short answer is the beginning of the whole one, also if the search skips blocks.
func TestTheBestComeFirst(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	c := newCorpus(soak.Seed(t))
	x := Open(Config{})
	for range 3 {
		from := len(c.units)
		c.grow(1500)
		c.add(t, x, from, len(c.units))
	}
	for range 60 {
		text, q := c.query(t)
		q.Fields = []Field{Prompt, Answer, Output}
		q.Now = 11e8
		all, _ := c.ask(t, x, &q, 0, maxVerified)
		if slices.ContainsFunc(q.Fields, q.isVerified) && len(all) >= maxVerified/2 {
			continue // not all of them are verified
		}
		first := c.random.IntN(20)
		some, res := c.ask(t, x, &q, first, 10)
		want := all[min(first, len(all)):min(first+10, len(all))]
		if !slices.Equal(some, want) {
			t.Errorf("%q: %v, want %v", text, some, want)
		}
		if !res.IsCapped && res.Total != len(all) || res.IsCapped && res.Total > len(all) {
			t.Errorf("%q: total %d (capped %t), want %d", text, res.Total, res.IsCapped, len(all))
		}
	}
}

// TestEqualHitsHaveAnOrder asks for some of the hits that have the same words, time and weight. They must be the first of all.
func TestEqualHitsHaveAnOrder(t *testing.T) {
	x := Open(Config{Dir: t.TempDir(), FS: vfs.OS})
	defer x.Close()
	c := &corpus{}
	for n := range 20 {
		u := &Text{}
		for _, f := range []Field{Renamed, Created, Deleted, Changed} {
			u.add(f, "src/limit.go")
		}
		c.units = append(c.units, Unit{Commit: segno.CommitID(fmt.Sprint(n)), Seq: int64(n + 1), Time: 1e9})
		c.texts = append(c.texts, u)
	}
	c.add(t, x, 0, 10)
	c.add(t, x, 10, 20)
	q, err := Parse("limit")
	if err != nil {
		t.Fatal(err)
	}
	q.Fields, q.Now = []Field{Created, Changed, Deleted, Renamed}, 1e9+1
	all, _ := c.ask(t, x, &q, 0, 80)
	for n := 1; n < len(all); n++ {
		if some, _ := c.ask(t, x, &q, 0, n); !slices.Equal(some, all[:n]) {
			t.Fatalf("the first %d are %v, want %v", n, some, all[:n])
		}
	}
}

// TestWordsOfCode checks how words are split.
func TestWordsOfCode(t *testing.T) {
	for text, want := range map[string]string{
		"rateLimiter":   "rate@0 limiter@1 ratelimiter@0",
		"rate_limiter2": "rate@0 limiter2@1 ratelimiter2@0",
		"HTTPServer":    "http@0 server@1 httpserver@0",
		"src/limit.go":  "src@0 limit@1 go@2",
		"a.b(C)":        "a@0 b@1 c@2",
		"検索 é":          "検@0 索@1 é@2",
		"_ __x":         "x@0",
		"ÀÉx":           "à@0 éx@1 àéx@0",
	} {
		var got []string
		new(tokenizer).each(text, 0, func(term []byte, pos uint32, _ bool, from, to int) {
			got = append(got, fmt.Sprintf("%s@%d", term, pos))
			if from < 0 || to <= from || to > len(text) {
				t.Errorf("%q: %s is at %d to %d", text, term, from, to)
			}
		})
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
}

// TestRankingPrefersPromptsAndNewDocuments checks the order of documents with the same words.
func TestRankingPrefersPromptsAndNewDocuments(t *testing.T) {
	const day = 24 * 3600
	x := Open(Config{})
	c := &corpus{}
	add := func(f Field, age int64, text string) {
		u := &Text{}
		u.add(f, text)
		c.units = append(c.units, Unit{Commit: segno.CommitID(text), Seq: int64(len(c.units) + 1), Time: 1e9 - age*day})
		c.texts = append(c.texts, u)
	}
	add(Answer, 100, "old answer rate limiter")
	add(Answer, 1, "new answer rate limiter")
	add(Prompt, 1, "prompt for rate limiter")
	add(Answer, 1, "limiter of rate reversed")
	add(Answer, 0, "only the limiter of all")
	add(Output, 0, "output of rate limiter")
	c.add(t, x, 0, len(c.units))
	q, err := Parse("rate limiter")
	if err != nil {
		t.Fatal(err)
	}
	q.Now = 1e9
	res, err := x.Search(&q, 0, 10, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range res.Hits {
		got = append(got, string(h.Commit)+strings.Join(h.Missing, ""))
	}
	want := []string{"prompt for rate limiter", "new answer rate limiter", "old answer rate limiter", "limiter of rate reversed", "only the limiter of allrate"}
	if !slices.Equal(got, want) || res.Total != 4 {
		t.Errorf("%q (total %d), want %q", got, res.Total, want)
	}
}

// TestBeginningsOfALine finds a line by each of its beginnings, wherever they end.
func TestBeginningsOfALine(t *testing.T) {
	const line = "func (s *HTTPServer) getURLOf_ID2(x JSONValue, größeÄ string) // das Ende"
	x := Open(Config{})
	defer x.Close()
	b := newBuilder()
	b.addSource(Source{Thread: "t", From: 1, To: 1})
	b.add(Unit{Commit: "c", Seq: 1, Time: 1}, &Text{Added: {line}})
	if err := x.addSegment(b.content()); err != nil {
		t.Fatal(err)
	}
	for end := range line {
		if strings.TrimSpace(line[:end]) == "" {
			continue
		}
		q := LineQuery(line[:end])
		a, err := x.Search(&q, 0, 1, time.Now().Add(time.Hour), func(*Hit) ([]string, error) { return []string{line}, nil })
		if err != nil || len(a.Hits) != 1 {
			t.Errorf("%q is not found: %v", line[:end], err)
		}
	}
}
