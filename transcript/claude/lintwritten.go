package claude

import (
	"cmp"
	"slices"
)

// The repair of a chain asks the same questions at each of its gaps, and a hostile transcript has a gap at each record. The
// types of this file answer them without looking at all records again, because a chain only grows.

// messagesBeside finds the first message that is not in a set of records, which only grows. A message of a side chain, and one
// before a compaction, does not count.
type messagesBeside struct {
	v  *loaded
	in []bool
	at int // no message before this one is left
}

// first returns the first message that is left, or the number of records if there is none.
func (m *messagesBeside) first() int {
	for ; m.at < len(m.in); m.at++ {
		if n := &m.v.nodes[m.at]; n.kind.isMessage() && !n.isSidechain && !m.v.gone[m.at] && !m.in[m.at] {
			break
		}
	}
	return m.at
}

// unlinkedMessages finds the first message from which no path leads to the conversation; see [loaded.attached].
type unlinkedMessages struct {
	messagesBeside
	below [][]int // the records directly below each record
	above []bool  // the records of the chain and their ancestors
	known int     // the number of records of the chain that are linked
}

func (v *loaded) newUnlinkedMessages(chain []int) *unlinkedMessages {
	u := &unlinkedMessages{messagesBeside: messagesBeside{v: v, in: v.attached(chain)}, below: make([][]int, len(v.nodes)), above: make([]bool, len(v.nodes))}
	for i, above := range v.linkedTo() {
		if above != none {
			u.below[above] = append(u.below[above], i)
		}
	}
	return u
}

// link links the new records of a chain, their ancestors across compactions, and all records below those.
func (u *unlinkedMessages) link(chain []int) {
	var todo []int
	add := func(i int) {
		if !u.in[i] {
			u.in[i] = true
			todo = append(todo, i)
		}
	}
	for _, i := range chain[u.known:] {
		for at := i; at != none && !u.above[at]; at = u.v.index(u.v.above(at)) {
			u.above[at] = true
			add(at)
		}
	}
	u.known = len(chain)
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, below := range u.below[i] {
			add(below)
		}
	}
}

// writtenOrder finds the newest record that the agent wrote before another one.
type writtenOrder struct {
	v       *loaded
	records []int // in the order of their times, and of the file for equal times
	last    []int // by place behind a record: the last place up to there whose record is not in the chain
	places  []int // by record: its place behind, or 0 if it cannot be a parent
	newest  []int // a tree: the greatest place in the halves of the file, for records without a time
	known   int   // the number of records of the chain that are left out
}

// newWrittenOrder returns the order of the records that can be parents in a repaired chain.
func (v *loaded) newWrittenOrder() *writtenOrder {
	o := &writtenOrder{v: v, places: make([]int, len(v.nodes)), newest: make([]int, 2*len(v.nodes))}
	for i := range v.nodes {
		if n := &v.nodes[i]; n.kind.inConversation() && n.uuid != "" && !n.isSidechain && !v.gone[i] {
			o.records = append(o.records, i)
		}
	}
	slices.SortStableFunc(o.records, func(a, b int) int { return cmp.Compare(v.nodes[a].time, v.nodes[b].time) })
	o.last = make([]int, len(o.records)+1)
	for place, i := range o.records {
		o.places[i], o.last[place+1] = place+1, place+1
		o.setNewest(i, place+1)
	}
	return o
}

// before returns the newest record that is not in chain and that the agent wrote before record i, or none. If record i has no
// time, it is the newest one of those before it in the file. The records of an earlier call must begin chain.
func (o *writtenOrder) before(i int, chain []int) int {
	for _, i := range chain[o.known:] {
		if place := o.places[i]; place > 0 {
			o.last[place] = place - 1
			o.setNewest(i, 0)
		}
	}
	o.known = len(chain)
	place := 0
	if own := o.v.nodes[i].time; own == noTime {
		place = o.newestBefore(i)
	} else {
		place, _ = slices.BinarySearchFunc(o.records, i, func(j, i int) int {
			return cmp.Or(cmp.Compare(o.v.nodes[j].time, own), cmp.Compare(j, i))
		})
		place = o.lastKept(place)
	}
	if place == 0 {
		return none
	}
	return o.records[place-1]
}

// lastKept returns the last place up to the given one whose record is not in the chain, or 0.
func (o *writtenOrder) lastKept(place int) int {
	end := place
	for o.last[end] != end {
		end = o.last[end]
	}
	for place != end { // later searches skip all of them at once
		place, o.last[place] = o.last[place], end
	}
	return end
}

// setNewest sets the place of a record in the tree.
func (o *writtenOrder) setNewest(i, place int) {
	at := i + len(o.places)
	o.newest[at] = place
	for at /= 2; at > 0; at /= 2 {
		o.newest[at] = max(o.newest[2*at], o.newest[2*at+1])
	}
}

// newestBefore returns the greatest place of the records before record i in the file, or 0.
func (o *writtenOrder) newestBefore(i int) (place int) {
	for from, to := len(o.places), i+len(o.places); from < to; from, to = from/2, to/2 {
		if from%2 == 1 {
			place = max(place, o.newest[from])
			from++
		}
		if to%2 == 1 {
			to--
			place = max(place, o.newest[to])
		}
	}
	return place
}
