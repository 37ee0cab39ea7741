package search

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// modelFind is the model of [clause.find] for a clause with terms: of all places of a text it takes those of the first term in the
// order of their positions, and searches all places for each further term.
func modelFind(c *clause, f Field, text string) (from, to int) {
	type found struct {
		place
		term string
	}
	var all []found
	positions := uint32(0)
	new(tokenizer).each(text, 0, func(term []byte, pos uint32, isWhole bool, at, end int) {
		if !isWhole || fieldTraits[f].hasPositions {
			all = append(all, found{place{pos, at, end}, string(term)})
		}
		positions = max(positions, pos+1)
	})
	at := func(i int, pos uint32) *found {
		for n := range all {
			if all[n].pos == pos && c.isTerm(i, []byte(all[n].term)) {
				return &all[n]
			}
		}
		return nil
	}
	for pos := range positions {
		first := at(0, pos)
		last := first
		for i := 1; i < len(c.terms) && last != nil; i++ {
			last = at(i, pos+uint32(i))
		}
		if last != nil {
			return first.from, last.to
		}
	}
	return -1, -1
}

// TestAPlaceIsFoundLikeByASearchOfAll compares the places of random clauses in random texts with those of the model. The texts have
// words of several parts, whose positions are not in the order of the text.
func TestAPlaceIsFoundLikeByASearchOfAll(t *testing.T) {
	matches := 0
	for _, seed := range soak.Seeds(t, 3, 200) {
		c := newCorpus(seed)
		for range 300 {
			text := c.words(30)
			terms := termsOf(c.words(3))
			if len(terms) == 0 {
				continue
			}
			if begin := c.random.IntN(len(terms)); c.random.IntN(2) == 0 {
				terms = terms[begin:]
			}
			x := clause{terms: terms[:min(len(terms), 3)], prefix: c.random.IntN(2) == 0}
			if last := len(x.terms) - 1; x.prefix && len(x.terms[last]) < maxTerm {
				x.terms[last] = x.terms[last][:1+c.random.IntN(len(x.terms[last]))]
			}
			for _, f := range []Field{Answer, Added} {
				from, to := x.find(f, text)
				if wantFrom, wantTo := modelFind(&x, f, text); from != wantFrom || to != wantTo {
					t.Fatalf("seed %d: %q (prefix %t) is at %d to %d of %q, want %d to %d", seed, x.terms, x.prefix, from, to, text, wantFrom, wantTo)
				}
				if from >= 0 {
					matches++
				}
			}
		}
	}
	if matches < 100 {
		t.Errorf("only %d clauses match", matches)
	}
}

// TestALongTextIsSearchedOnce counts how often places are looked at in a text with very many words of a query, which are nowhere
// adjacent. A text of ten times the length takes ten times as many looks.
func TestALongTextIsSearchedOnce(t *testing.T) {
	looks := func(words int) (n int) {
		found := make([][]uint32, 3)
		random := rand.New(rand.NewPCG(1, 1))
		for pos := range uint32(words) {
			// The terms are two positions apart, and the second one never has a position after the first one.
			i := random.IntN(2)
			found[i], found[2] = append(found[i], 4*pos+2*uint32(i)), append(found[2], 4*pos)
		}
		counts := []int{len(found[0]), len(found[1]), len(found[2])}
		if run := firstRun(counts, func(i, place int) uint32 { n++; return found[i][place] }); run != nil {
			t.Errorf("the terms are adjacent at %v", run)
		}
		return n
	}
	short, long := looks(1000), looks(10_000)
	if long > 12*short {
		t.Errorf("a text of 1,000 words takes %d looks, and one of 10,000 words takes %d", short, long)
	}
}

// TestAnExcerptOfALongText has the words of a query twenty thousand times each, and adjacent once, at the end.
func TestAnExcerptOfALongText(t *testing.T) {
	q, err := Parse("error timeout")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("error in x, timeout in y\n", 20_000) + "error timeout"
	if e := q.Excerpt(Output, []string{text}); e.Match != "error timeout" {
		t.Errorf("the excerpt is of %q", e.Match)
	}
}
