package claude

import (
	"cmp"
	"slices"
)

// nearest finds the record that the agent uses instead of a missing parent: the one written last before a record, at most
// [maxGap] earlier. It never returns a record that was excluded. A hostile transcript can have a gap at each record, so a
// search must not look at all records.
type nearest struct {
	v     *loaded
	lists [2]byTime // the records of the main chain, and those of side chains
}

// byTime are records in the order of their times, the newest first. Records with the same time are in the order of the file.
type byTime struct {
	records []int
	next    []int       // by place: this place, or a later one before which all records are excluded; len(records) is the end
	places  map[int]int // by record
}

// nearest returns the search in the records that are not gone and have a time.
func (v *loaded) nearest() *nearest {
	s := &nearest{v: v}
	for i := range v.nodes {
		if n := &v.nodes[i]; !v.gone[i] && n.time != noTime {
			l := s.list(i)
			l.records = append(l.records, i)
		}
	}
	for k := range s.lists {
		l := &s.lists[k]
		slices.SortStableFunc(l.records, func(a, b int) int { return cmp.Compare(v.nodes[b].time, v.nodes[a].time) })
		l.next, l.places = make([]int, len(l.records)+1), make(map[int]int, len(l.records))
		for place := range l.next {
			l.next[place] = place
		}
		for place, i := range l.records {
			l.places[i] = place
		}
	}
	return s
}

// list returns the list to which a record belongs.
func (s *nearest) list(i int) *byTime {
	if s.v.nodes[i].isSidechain {
		return &s.lists[1]
	}
	return &s.lists[0]
}

// exclude excludes a record from all later searches.
func (s *nearest) exclude(i int) {
	l := s.list(i)
	if place, ok := l.places[i]; ok {
		l.next[place] = place + 1
	}
}

// before returns the record written last before record i, or none.
func (s *nearest) before(i int) int {
	own, l := s.v.nodes[i].time, s.list(i)
	if own == noTime {
		return none
	}
	place, _ := slices.BinarySearchFunc(l.records, own, func(j int, own int64) int { return cmp.Compare(own, s.v.nodes[j].time) })
	if place = l.skip(place); place == len(l.records) {
		return none
	}
	if at := l.records[place]; own-s.v.nodes[at].time <= maxGap {
		return at
	}
	return none
}

// skip returns the first place from the given one on whose record is not excluded.
func (l *byTime) skip(place int) int {
	end := place
	for l.next[end] != end {
		end = l.next[end]
	}
	for place != end { // later searches skip all of them at once
		place, l.next[place] = l.next[place], end
	}
	return end
}
