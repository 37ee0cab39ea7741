package search

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"
)

// Hit is a document that matches a query.
type Hit struct {
	Source Source
	Unit
	Field Field
	Score float64
	// Missing has the clauses of the query that the document does not match. Such hits come after all others.
	Missing []string
}

// Result is the result of a search.
type Result struct {
	Hits  []Hit // the best first
	Total int   // the number of documents that match each clause
	// IsCapped is set if there may be more than Total: the search ended when it had the best ones, or at its deadline.
	IsCapped bool
}

const (
	exactTotal  = 1000 // up to this number, Total is exact, because only then the search skips documents
	maxVerified = 5000 // documents whose text one search reads
)

// flatTerm is a term of a clause.
type flatTerm struct {
	clause int
	offset uint32 // from the first term of the clause
	order  uint32 // from the first term of the query
	text   string
	prefix bool
	idf    float64
}

// run is one search under way.
type run struct {
	q     *Query
	terms []flatTerm
	parts []searchPart
	best  hitHeap
	limit int
	total int
	isCut bool
	age   float64 // the largest recency of a document of the present part
}

// searchPart is a field of a segment, with the dictionary entries of each term.
type searchPart struct {
	seg     *segment
	field   Field
	entries [][]dictEntry
}

// candidate is a document that may be a hit.
type candidate struct {
	seg     *segment
	doc     doc
	score   float64
	missing uint64 // a bit for each clause
}

// search runs a query on segments. It returns the best limit candidates, the best first.
func search(segs []*segment, q *Query, limit int) (*run, error) {
	r := &run{q: q, limit: limit}
	for i := range q.clauses {
		c := &q.clauses[i]
		for n, term := range c.terms {
			r.terms = append(r.terms, flatTerm{clause: i, offset: uint32(n), order: uint32(len(r.terms)), text: term, prefix: c.prefix && n == len(c.terms)-1})
		}
		for _, term := range c.needed {
			r.terms = append(r.terms, flatTerm{clause: i, text: term})
		}
	}
	if err := r.plan(segs); err != nil {
		return nil, err
	}
	if err := r.each(r.all); err != nil {
		return nil, err
	}
	isStrict := slices.ContainsFunc(q.clauses, func(c clause) bool { return c.exact != "" || c.re != nil || c.match != nil })
	if len(r.best) < limit && len(q.clauses) > 1 && len(q.clauses) <= 64 && !isStrict {
		if err := r.each(r.any); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.best, func(a, b candidate) int { return compareCandidates(b, a) })
	return r, nil
}

// plan looks up the terms and computes how rare each one is.
func (r *run) plan(segs []*segment) error {
	df, docs := make([]float64, len(r.terms)), 0.0
	for _, s := range segs {
		for _, f := range r.q.fields() {
			docs += float64(s.docs[f])
			part := searchPart{seg: s, field: f, entries: make([][]dictEntry, len(r.terms))}
			for i := range r.terms {
				entries, err := r.lookUp(s, f, &r.terms[i])
				if err != nil {
					return err
				}
				for _, e := range entries {
					df[i] += float64(e.n)
				}
				part.entries[i] = entries
			}
			r.parts = append(r.parts, part)
		}
	}
	for i := range r.terms {
		r.terms[i].idf = math.Log(1 + (max(docs-df[i], 0)+0.5)/(df[i]+0.5))
	}
	return nil
}

func (r *run) lookUp(s *segment, f Field, t *flatTerm) ([]dictEntry, error) {
	if !t.prefix {
		e, ok, err := s.find(t.text, f)
		if !ok {
			return nil, err
		}
		return []dictEntry{e}, err
	}
	all, isAll, err := s.expand(t.text, f)
	r.isCut = r.isCut || !isAll
	return all, err
}

// each searches the parts, those with the newest documents first.
func (r *run) each(search func(*searchPart) error) error {
	slices.SortStableFunc(r.parts, func(a, b searchPart) int { return cmp.Compare(b.seg.newest(), a.seg.newest()) })
	for i := range r.parts {
		r.age = recency(r.q.Now - r.parts[i].seg.newest())
		if err := search(&r.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// cursor is the list of a term of the query, or the union of the lists of a prefix.
type cursor struct {
	*postings
	*flatTerm
	most float64 // the largest score in the list
}

// cursors returns the cursors of a part, without the terms that it lacks. isAll is false if it lacks some.
func (r *run) cursors(p *searchPart) (all []cursor, isAll bool, err error) {
	isAll = true
	for i, entries := range p.entries {
		if len(entries) == 0 {
			isAll = false
			continue
		}
		c := cursor{flatTerm: &r.terms[i]}
		if len(entries) == 1 {
			c.postings, err = p.seg.list(entries[0])
		} else {
			c.postings, err = union(p.seg, entries, fieldTraits[p.field].hasPositions && len(r.terms) > 1)
		}
		if err != nil {
			return nil, false, err
		}
		for _, b := range c.blocks {
			c.most = max(c.most, c.score(b.max))
		}
		all = append(all, c)
	}
	return all, isAll, nil
}

func (c *cursor) score(impact byte) float64 {
	return c.idf * float64(impact) * maxWeight / (impacts - 1)
}

// union joins several lists.
func union(s *segment, entries []dictEntry, withPositions bool) (*postings, error) {
	var keys []uint64 // a document and an impact
	positions := map[uint32][]uint32{}
	for _, e := range entries {
		p, err := s.list(e)
		if err != nil {
			return nil, err
		}
		for ; p.doc() != endOfList; p.next() {
			keys = append(keys, uint64(p.doc())<<impactBits|uint64(p.impact()))
			if withPositions {
				positions[p.doc()] = append(positions[p.doc()], p.positions()...)
			}
		}
		if p.err != nil {
			return nil, p.err
		}
	}
	slices.Sort(keys)
	u := &postings{posEnd: []int{}}
	var b block
	for i, key := range keys {
		d, impact := uint32(key>>impactBits), byte(key&(impacts-1))
		if i+1 < len(keys) && uint32(keys[i+1]>>impactBits) == d {
			continue // the next impact of the document is higher
		}
		u.docs, u.impacts = append(u.docs, d), append(u.impacts, impact)
		if withPositions {
			slices.Sort(positions[d])
			u.pos = append(u.pos, positions[d]...)
			u.posEnd = append(u.posEnd, len(u.pos))
		}
		b.last, b.max = d, max(b.max, impact)
	}
	u.n, u.blocks = uint32(len(u.docs)), []block{b}
	return u, nil
}

// all finds the documents of a part that match each clause. Once the total is large enough, it skips blocks in which no
// document can be better than the hits so far.
func (r *run) all(p *searchPart) error {
	cs, isAll, err := r.cursors(p)
	if err != nil || !isAll {
		return err
	}
	if len(cs) == 0 {
		return r.everything(p)
	}
	slices.SortFunc(cs, func(a, b cursor) int { return cmp.Compare(a.n, b.n) })
	for d := cs[0].doc(); d != endOfList; {
		if r.total >= exactTotal && len(r.best) == r.limit {
			r.isCut = true // from here on, documents that cannot be hits are not counted
			if next := r.skip(cs, d, p.field); next > d {
				d = seekFirst(cs, next)
				continue
			}
		}
		if at := seekAll(cs, d); at == endOfList {
			break
		} else if at > d {
			d = seekFirst(cs, at)
			continue
		}
		if err := r.judge(p, cs, d); err != nil {
			return err
		}
		cs[0].next()
		d = cs[0].doc()
	}
	return failure(cs)
}

// judge offers a document, at which all cursors are, if it can be a hit or must be counted.
func (r *run) judge(p *searchPart, cs []cursor, d uint32) error {
	score := 0.0
	for i := range cs {
		score += cs[i].score(cs[i].impact())
	}
	mayBeHit := r.mayBeHit(score*r.mostBoost(), p.field)
	if !mayBeHit && r.total >= exactTotal || !r.matchesPhrases(cs, p.field) {
		return nil
	}
	if mayBeHit {
		score *= r.phraseFactor(cs, p.field) // which reads positions
	}
	if r.total >= exactTotal && !r.mayBeHit(score, p.field) {
		return nil
	}
	return r.offer(p, d, score, 0)
}

// seekAll moves the cursors to d. It returns d, or the first document behind it at which a cursor is.
func seekAll(cs []cursor, d uint32) uint32 {
	for i := range cs {
		if cs[i].seek(d); cs[i].doc() > d {
			return cs[i].doc()
		}
	}
	return d
}

func seekFirst(cs []cursor, target uint32) uint32 {
	cs[0].seek(target)
	return cs[0].doc()
}

func failure(cs []cursor) error {
	for i := range cs {
		if cs[i].err != nil {
			return cs[i].err
		}
	}
	return nil
}

// skip returns the first document behind the present blocks if none in them can be a hit, else d.
func (r *run) skip(cs []cursor, d uint32, f Field) uint32 {
	most, last := 0.0, uint32(endOfList-1)
	for i := range cs {
		b := cs[i].blockOf(d)
		if b == len(cs[i].blocks) {
			return endOfList
		}
		most += cs[i].score(cs[i].blocks[b].max)
		last = min(last, cs[i].blocks[b].last)
	}
	if r.mayBeHit(most*r.mostBoost(), f) {
		return d
	}
	return last + 1
}

// everything offers all documents of a field, because only their texts decide.
func (r *run) everything(p *searchPart) error {
	for d := range p.seg.docs[p.field] {
		if err := r.offer(p, d, 1, 0); err != nil {
			return err
		}
	}
	return nil
}

// matchesPhrases reports whether the terms of each clause follow each other in the present document. Fields without positions
// are verified later.
func (r *run) matchesPhrases(cs []cursor, f Field) bool {
	if !fieldTraits[f].hasPositions {
		return true
	}
	for i := range r.q.clauses {
		isOf := func(t *flatTerm) (uint32, bool) { return t.offset, t.clause == i }
		if len(r.q.clauses[i].terms) > 1 && !isPhrase(cs, isOf) {
			return false
		}
	}
	return true
}

// phraseBoost is the factor of a document in which all words of a query follow each other.
const phraseBoost = 1.6

// mostBoost returns the largest phraseFactor.
func (r *run) mostBoost() float64 {
	if len(r.q.clauses) > 1 {
		return phraseBoost
	}
	return 1
}

// mayBeHit reports whether a document of a field with at most this score can be better than the worst hit so far. A document
// with the same score can be, because of its time or its place.
func (r *run) mayBeHit(score float64, f Field) bool {
	return len(r.best) < r.limit || r.q.ByTime || score*r.age*fieldTraits[f].weight >= r.best[0].score
}

func (r *run) phraseFactor(cs []cursor, f Field) float64 {
	inOrder := func(t *flatTerm) (uint32, bool) { return t.order, true }
	if len(r.q.clauses) > 1 && fieldTraits[f].hasPositions && isPhrase(cs, inOrder) {
		return phraseBoost
	}
	return 1
}

// isPhrase reports whether terms follow each other in the document at which all cursors are. place returns the place of a
// term among them, and false for another term.
func isPhrase(cs []cursor, place func(*flatTerm) (uint32, bool)) bool {
	var starts []uint32
	isFirst := true
	for i := range cs {
		offset, ok := place(cs[i].flatTerm)
		if !ok {
			continue
		}
		var here []uint32
		for _, at := range cs[i].positions() {
			if at < offset {
				continue
			}
			if _, ok := slices.BinarySearch(starts, at-offset); isFirst || ok {
				here = append(here, at-offset)
			}
		}
		if isFirst = false; len(here) == 0 {
			return false
		}
		starts = here
	}
	return true
}

// any finds the documents of a part that match some clauses, but not all. A document that only has terms whose scores
// together are too small is not visited.
func (r *run) any(p *searchPart) error {
	cs, _, err := r.cursors(p)
	if err != nil || len(cs) == 0 {
		return err
	}
	slices.SortFunc(cs, func(a, b cursor) int { return cmp.Compare(a.most, b.most) })
	sums := make([]float64, len(cs)) // the largest scores of a cursor and the ones before it
	for i := range cs {
		sums[i] = cs[i].most + sums[max(i-1, 0)]
	}
	here := make([]cursor, 0, len(cs))
	for {
		first := r.essential(cs, p.field)
		d := nearest(cs[first:])
		if d == endOfList {
			return failure(cs)
		}
		score := 0.0
		here = here[:0]
		for i := len(cs) - 1; i >= 0 && (i >= first || r.mayBeHit(score+sums[i], p.field)); i-- {
			if cs[i].seek(d); cs[i].doc() == d {
				score += cs[i].score(cs[i].impact())
				here = append(here, cs[i])
			}
		}
		missing := r.missing(here, score, p.field)
		if missing != 0 && missing != 1<<len(r.q.clauses)-1 {
			if err := r.offer(p, d, score, missing); err != nil {
				return err
			}
		}
		for i := first; i < len(cs); i++ {
			if cs[i].doc() == d {
				cs[i].next()
			}
		}
	}
}

// nearest returns the first document at which a cursor is.
func nearest(cs []cursor) uint32 {
	d := uint32(endOfList)
	for i := range cs {
		d = min(d, cs[i].doc())
	}
	return d
}

// essential returns the first cursor such that the ones before it cannot make a hit.
func (r *run) essential(cs []cursor, f Field) int {
	if len(r.best) < r.limit {
		return 0
	}
	if r.best[0].missing == 0 {
		return len(cs)
	}
	sum := 0.0
	for i := range cs {
		if sum += cs[i].most; r.mayBeHit(sum, f) {
			return i
		}
	}
	return len(cs)
}

// missing returns a bit for each clause that the document at which the cursors are does not match: all of them if its score
// is too small for a hit.
func (r *run) missing(here []cursor, score float64, f Field) uint64 {
	missing := uint64(1)<<len(r.q.clauses) - 1
	if !r.mayBeHit(score, f) {
		return missing
	}
	for i := range r.q.clauses {
		if r.hasClause(here, i, f) {
			missing &^= 1 << i
		}
	}
	return missing
}

// hasClause reports whether the document at which the cursors are matches a clause.
func (r *run) hasClause(here []cursor, clause int, f Field) bool {
	n := 0
	for i := range here {
		if here[i].clause == clause {
			n++
		}
	}
	c := &r.q.clauses[clause]
	if n < len(c.terms) {
		return false
	}
	isOf := func(t *flatTerm) (uint32, bool) { return t.offset, t.clause == clause }
	return n == 1 || !fieldTraits[f].hasPositions || isPhrase(here, isOf)
}

// offer adds a document to the hits if it is visible and one of the best.
func (r *run) offer(p *searchPart, at uint32, score float64, missing uint64) error {
	d, err := p.seg.doc(p.field, at)
	if err != nil {
		return err
	}
	s := &p.seg.sources[d.source]
	if s.isSession() && !r.q.Sessions || r.q.Thread != "" && s.Thread != r.q.Thread || r.q.Threads != nil && !r.q.Threads[s.Thread] {
		return nil
	}
	if isHidden, err := p.seg.isHidden(d); err != nil || isHidden {
		return err
	}
	if missing == 0 {
		r.total++
	}
	x := candidate{p.seg, d, score * fieldTraits[d.field].weight * recency(r.q.Now-int64(d.time)), missing}
	if r.q.ByTime {
		x.score = float64(d.time)
	}
	if len(r.best) < r.limit {
		heap.Push(&r.best, x)
	} else if compareCandidates(r.best[0], x) < 0 {
		r.best[0] = x
		heap.Fix(&r.best, 0)
	}
	return nil
}

// recency is a factor of at most 1 for the age of a document in seconds. Half of its range is reached after a month.
func recency(age int64) float64 {
	const month, least = 30 * 24 * 3600, 0.7
	return least + (1-least)/(1+float64(max(age, 0))/month)
}

// compareCandidates orders candidates, the better one greater. No two are equal, so that the first hits do not depend on
// how many are asked for.
func compareCandidates(a, b candidate) int {
	if (a.missing == 0) != (b.missing == 0) {
		return cmp.Compare(b.missing, a.missing)
	}
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.doc.time, b.doc.time), strings.Compare(b.seg.name, a.seg.name), cmp.Compare(b.doc.unit, a.doc.unit),
		cmp.Compare(b.doc.field, a.doc.field))
}

// hitHeap has the worst candidate first.
type hitHeap []candidate

func (h hitHeap) Len() int           { return len(h) }
func (h hitHeap) Less(i, j int) bool { return compareCandidates(h[i], h[j]) < 0 }
func (h hitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hitHeap) Push(x any)        { *h = append(*h, x.(candidate)) }
func (h *hitHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// hit returns the hit of a candidate.
func (r *run) hit(c candidate) (Hit, error) {
	u, err := c.seg.unit(c.doc.unit)
	h := Hit{Source: c.seg.sources[c.doc.source], Unit: u, Field: c.doc.field, Score: c.score}
	for i := range r.q.clauses {
		if c.missing&(1<<i) != 0 {
			h.Missing = append(h.Missing, r.q.clauses[i].text)
		}
	}
	return h, err
}
