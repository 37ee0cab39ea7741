package search

import (
	"strings"

	"github.com/dalsegno/segno"
)

// merge returns the content of a segment with the documents of several segments.
func merge(all []*segment) ([]byte, error) {
	m := &merger{w: newWriter(), threads: map[segno.ThreadID][]int{}}
	for _, s := range all {
		if err := m.addTables(s); err != nil {
			return nil, err
		}
	}
	if err := m.addLists(all); err != nil {
		return nil, err
	}
	return m.w.finish(m.sources, m.unitAt, m.units, &m.docs), nil
}

type merger struct {
	w       *writer
	sources []Source
	threads map[segno.ThreadID][]int // the sources of each thread
	unitAt  []uint32
	units   []byte
	docs    [fieldEnd][]byte
	base    [][fieldEnd]uint32 // of each segment: the number of its first document in each field
}

// addTables adds the sources, units and documents of a segment.
func (m *merger) addTables(s *segment) error {
	firstUnit := uint32(len(m.unitAt))
	numbers := make([]uint32, len(s.sources))
	for i := range s.sources {
		numbers[i] = m.addSource(s.sources[i])
	}
	var base [fieldEnd]uint32
	for f := range base {
		base[f] = uint32(len(m.docs[f]) / docSize)
	}
	m.base = append(m.base, base)
	for i := range s.units {
		u, err := s.unit(i)
		if err != nil {
			return err
		}
		m.unitAt = append(m.unitAt, uint32(len(m.units)))
		m.units = appendUnit(m.units, u)
	}
	for f, n := range s.docs {
		for i := range n {
			d, err := s.doc(Field(f), i)
			if err != nil {
				return err
			}
			m.docs[f] = appendDoc(m.docs[f], firstUnit+d.unit, int64(d.time), numbers[d.source])
		}
	}
	return nil
}

// addSource adds a source and returns its number. It joins two sources of a thread that follow each other.
func (m *merger) addSource(s Source) uint32 {
	for _, i := range m.threads[s.Thread] {
		o := &m.sources[i]
		if o.To+1 != s.From && s.To+1 != o.From {
			continue
		}
		o.From, o.To = min(o.From, s.From), max(o.To, s.To)
		o.Replaced = append(o.Replaced, s.Replaced...)
		return uint32(i)
	}
	if !s.isSession() {
		m.threads[s.Thread] = append(m.threads[s.Thread], len(m.sources))
	}
	m.sources = append(m.sources, s)
	return uint32(len(m.sources) - 1)
}

// addLists merges the dictionaries.
func (m *merger) addLists(all []*segment) error {
	next := make([]func() (dictEntry, bool), len(all))
	heads, has := make([]dictEntry, len(all)), make([]bool, len(all))
	errs := make([]error, len(all))
	for i, s := range all {
		read, stop := s.pull(&errs[i])
		defer stop()
		next[i] = read
		heads[i], has[i] = read()
	}
	for {
		least, found := "", false
		for i := range heads {
			if has[i] && (!found || strings.Compare(heads[i].key, least) < 0) {
				least, found = heads[i].key, true
			}
		}
		if !found {
			break
		}
		var joined list
		for i := range heads {
			if !has[i] || heads[i].key != least {
				continue
			}
			if err := m.join(&joined, all[i], heads[i], &m.base[i]); err != nil {
				return err
			}
			heads[i], has[i] = next[i]()
		}
		m.w.addList(least, &joined)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// join appends the documents of a list.
func (m *merger) join(to *list, s *segment, e dictEntry, base *[fieldEnd]uint32) error {
	p, err := s.list(e)
	if err != nil {
		return err
	}
	f := Field(e.key[len(e.key)-1])
	for ; p.doc() != endOfList; p.next() {
		var positions []uint32
		if fieldTraits[f].hasPositions {
			positions = p.positions()
		}
		to.add(base[f]+p.doc(), p.impact(), positions)
	}
	return p.err
}
