package search

import (
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Query is a question to an [Index].
type Query struct {
	clauses []clause
	// Fields are the fields to search; nil means those of [Conversation].
	Fields []Field
	Thread segno.ThreadID // only of this thread
	// Threads are the threads to search, if it is not nil.
	Threads map[segno.ThreadID]bool
	// Sessions also searches the sessions of agents that [Index.UpdateSessions] added.
	Sessions bool
	ByTime   bool  // the newest documents come first, instead of the best
	Now      int64 // the present time, in seconds since 1970: newer documents come first among equals
}

// clause is one part of a query, which a document matches or not.
type clause struct {
	text   string   // as the user wrote it
	terms  []string // consecutive terms; none for a clause that only the text can decide
	prefix bool     // the last term is the beginning of one
	exact  string   // in lower case, with single spaces: the text has it, as in "…"
	re     *regexp.Regexp
	match  func(text string) bool // if it is not nil, it decides alone
	// needed has the terms that a text has if it matches re.
	needed []string
}

// Parse reads a query: words, "exact phrases", prefixes*, and /regular expressions/. A document matches if it matches all
// of them. A word of several parts, such as src/limit.go, stands for its parts in this order. The error has
// [segno.KindInvalid].
func Parse(text string) (q Query, err error) {
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		var c clause
		switch end := closing(rest); {
		case end > 0 && rest[0] == '"':
			c = phraseOf(rest[1:end])
			rest = rest[end+1:]
		case end > 0:
			if c, err = patternOf(rest[1:end]); err != nil {
				return q, err
			}
			rest = rest[end+1:]
		default:
			word := rest
			if i := strings.IndexAny(rest, " \t\r\n"); i > 0 {
				word = rest[:i]
			}
			rest = rest[len(word):]
			c = wordOf(word)
		}
		if len(c.terms) > 0 || c.exact != "" || c.re != nil {
			q.clauses = append(q.clauses, c)
		}
	}
	if len(q.clauses) == 0 {
		return q, segno.Errorf(segno.KindInvalid, "search", text, "the query has no words").WithHint(`put a text of punctuation in quotes: '"&&"'`)
	}
	return q, nil
}

// PathQuery returns the query for checkpoints that changed the file or directory at one of several paths, or anything below it. A
// path without a slash is also the name of a file in any directory.
func PathQuery(paths []string, fields ...Field) Query {
	needed := termsOf(path.Base(paths[0]))
	for _, p := range paths {
		if !slices.Equal(needed, termsOf(path.Base(p))) {
			needed = nil
		}
	}
	isAt := func(text string) bool {
		return slices.ContainsFunc(paths, func(p string) bool {
			return p == "" || text == p || strings.HasPrefix(text, p+"/") || !strings.Contains(p, "/") && path.Base(text) == p
		})
	}
	c := clause{text: paths[0], needed: needed, match: isAt}
	return Query{clauses: []clause{c}, Fields: fields, ByTime: true}
}

// LineQuery returns the query for checkpoints that added or removed a line with a text, which begins at the beginning of a word.
func LineQuery(text string) Query {
	c := clause{text: text, terms: termsOf(text), match: func(lines string) bool { return strings.Contains(lines, text) }}
	// The last capital of HTTPS may begin a part, as in HTTPServer.
	if end, size := utf8.DecodeLastRuneInString(text); classOf(end) == upperCase {
		c.terms = termsOf(text[:len(text)-size])
	}
	c.prefix = len(c.terms) > 0
	return Query{clauses: []clause{c}, Fields: []Field{Added, Removed}, ByTime: true}
}

// TextQuery returns the query for a text as a user types it: its words in this order, of which the last one may be incomplete,
// with the punctuation between them. ok is false for a text without a word.
func TextQuery(text string) (q Query, ok bool) {
	c := phraseOf(text)
	c.prefix = len(c.terms) > 0
	return Query{clauses: []clause{c}}, len(c.terms) > 0
}

// Excerpt returns the best excerpt of the texts of a hit: of all words of the query in their order, else of the first word in
// the text that has the most of them.
func (q *Query) Excerpt(f Field, texts []string) Excerpt {
	whole := clause{}
	for i := range q.clauses {
		whole.terms = append(whole.terms, q.clauses[i].terms...)
		whole.prefix = q.clauses[i].prefix
	}
	best, at, most := "", [2]int{}, -1
	for _, text := range texts {
		n := 0
		place := [2]int{-1, -1}
		for i := range q.clauses {
			if from, to := q.clauses[i].find(f, text); from >= 0 {
				if n++; place[0] < 0 {
					place = [2]int{from, to}
				}
			}
		}
		if from, to := whole.find(f, text); from >= 0 {
			n, place = len(q.clauses)+1, [2]int{from, to}
		}
		if n > most {
			best, at, most = text, place, n
		}
	}
	if at[0] < 0 {
		at = [2]int{}
	}
	return excerptOf(best, at[0], at[1]-at[0])
}

// closing returns the place of the character that closes a phrase or a regular expression at the beginning of a text, or 0. A
// slash closes one only at the end of a word, so that a path is not a regular expression.
func closing(text string) int {
	switch {
	case text[0] == '"':
		return max(0, strings.IndexByte(text[1:], '"')+1)
	case text[0] != '/':
		return 0
	}
	for i := 2; i < len(text); i++ {
		if text[i] == '/' && text[i-1] != '\\' && (i+1 == len(text) || strings.IndexByte(" \t\r\n", text[i+1]) >= 0) {
			return i
		}
	}
	return 0
}

func wordOf(word string) clause {
	c := clause{text: word, terms: termsOf(word)}
	c.prefix = strings.HasSuffix(word, "*") && len(c.terms) > 0
	return c
}

func phraseOf(text string) clause {
	return clause{text: `"` + text + `"`, terms: termsOf(text), exact: strings.ToLower(OneLine(strings.TrimSpace(text)))}
}

// termsOf returns the parts of the words of a text.
func termsOf(text string) (terms []string) {
	new(tokenizer).each(text, 0, func(term []byte, _ uint32, isWhole bool, _, _ int) {
		if !isWhole {
			terms = append(terms, string(term))
		}
	})
	return terms
}

func patternOf(text string) (clause, error) {
	c := clause{text: "/" + text + "/"}
	var err error
	if c.re, err = regexp.Compile("(?m)" + text); err == nil {
		var tree *syntax.Regexp
		if tree, err = syntax.Parse(text, syntax.Perl); err == nil {
			c.needed = neededTerms(tree.Simplify())
			return c, nil
		}
	}
	return c, segno.Errorf(segno.KindInvalid, "search", text, "it is not a regular expression: %w", err).WithHint("put a text in quotes to find it as it is")
}

// neededTerms returns terms that each text has that a regular expression matches: those in its literal parts that no
// letter can continue on either side.
func neededTerms(re *syntax.Regexp) (terms []string) {
	var parts []*syntax.Regexp
	switch re.Op {
	case syntax.OpConcat:
		parts = re.Sub
	case syntax.OpCapture, syntax.OpPlus:
		return neededTerms(re.Sub[0])
	default:
		parts = []*syntax.Regexp{re}
	}
	for _, p := range parts {
		switch p.Op {
		case syntax.OpLiteral: // the text may continue its first word and its last one
			isWord := func(r rune) bool { return classOf(r) != other || r == '_' }
			terms = append(terms, termsOf(strings.TrimFunc(string(p.Rune), isWord))...)
		case syntax.OpCapture, syntax.OpPlus:
			terms = append(terms, neededTerms(p.Sub[0])...)
		}
	}
	return terms
}

// fields returns the fields to search.
func (q *Query) fields() []Field {
	if len(q.Fields) == 0 {
		return Conversation()
	}
	return q.Fields
}

// isVerified reports whether only the text can decide if a document of a field matches, which the index returned.
func (q *Query) isVerified(f Field) bool {
	return slices.ContainsFunc(q.clauses, func(c clause) bool {
		return c.re != nil || c.match != nil || c.exact != "" && !isPlain(c.exact) || len(c.terms) > 1 && !fieldTraits[f].hasPositions
	})
}

// isPlain reports whether a phrase is words with single spaces, so that the positions of its terms decide.
func isPlain(phrase string) bool {
	return phrase == strings.Join(termsOf(phrase), " ")
}

// Matches reports whether for each clause one of the texts of a document matches it.
func (q *Query) Matches(f Field, texts []string) bool {
	for i := range q.clauses {
		c := &q.clauses[i]
		if !slices.ContainsFunc(texts, func(text string) bool { return c.matches(f, text) }) {
			return false
		}
	}
	return true
}

// matches reports whether a text matches the clause.
func (c *clause) matches(f Field, text string) bool {
	switch {
	case c.match != nil:
		return c.match(text)
	case c.re != nil:
		return c.re.MatchString(text)
	case c.exact != "" && !isPlain(c.exact):
		if from, _ := c.find(f, text); from < 0 {
			return false // the phrase may begin and end inside of words
		}
		return strings.Contains(strings.ToLower(OneLine(text)), c.exact)
	}
	from, _ := c.find(f, text)
	return from >= 0
}

// find returns the place of the first match of the clause in a text of a field, or a negative one.
func (c *clause) find(f Field, text string) (from, to int) {
	if c.re != nil {
		if at := c.re.FindStringIndex(text); at != nil {
			return at[0], at[1]
		}
		return -1, -1
	}
	if len(c.terms) == 0 {
		if i, n := indexFold(text, c.exact); c.exact != "" && i >= 0 {
			return i, i + n
		}
		return -1, -1
	}
	found := make([][]place, len(c.terms))
	new(tokenizer).each(text, 0, func(term []byte, pos uint32, isWhole bool, at, end int) {
		if isWhole && !fieldTraits[f].hasPositions {
			return
		}
		for i := range c.terms {
			if c.isTerm(i, term) {
				found[i] = addPlace(found[i], place{pos, at, end})
			}
		}
	})
	counts := make([]int, len(found))
	for i := range found {
		counts[i] = len(found[i])
	}
	run := firstRun(counts, func(i, n int) uint32 { return found[i][n].pos })
	if run == nil {
		return -1, -1
	}
	last := len(run) - 1
	return found[0][run[0]].from, found[last][run[last]].to
}

// addPlace adds a place to those of a term, which are in the order of their positions. A whole word comes after its parts and has
// the position of the first of them.
func addPlace(places []place, p place) []place {
	at := len(places)
	for at > 0 && places[at-1].pos > p.pos {
		at--
	}
	return slices.Insert(places, at, p)
}

// firstRun finds the first places of terms at consecutive positions. counts are the numbers of places of the terms, and pos returns
// the position of the n-th place of the i-th term; these positions do not descend. The result has one n for each term, and is nil if
// there is no such run. A text may have very many places, so firstRun passes each of them once.
func firstRun(counts []int, pos func(i, n int) uint32) []int {
	run := make([]int, len(counts))
	for ; run[0] < counts[0]; run[0]++ {
		first, isRun := pos(0, run[0]), true
		for i := 1; i < len(counts) && isRun; i++ {
			for run[i] < counts[i] && pos(i, run[i]) < first+uint32(i) {
				run[i]++
			}
			if run[i] == counts[i] {
				return nil
			}
			isRun = pos(i, run[i]) == first+uint32(i)
		}
		if isRun {
			return run
		}
	}
	return nil
}

// place is the position of a term, and its place in the text.
type place struct {
	pos      uint32
	from, to int
}

// isTerm reports whether a term of a text is the i-th term of the clause.
func (c *clause) isTerm(i int, term []byte) bool {
	if i >= len(c.terms) {
		return false
	}
	if c.prefix && i == len(c.terms)-1 {
		return strings.HasPrefix(string(term), c.terms[i])
	}
	return string(term) == c.terms[i]
}
