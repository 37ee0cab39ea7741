package search

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"sort"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// segment reads a segment. Its methods return errDamaged for any content that no builder writes.
type segment struct {
	name    string // of the file, or "" for a segment in memory
	size    int64  // of the file
	pages   *pageFile
	close   func() error
	ends    [sections]int64
	first   []dictStart
	sources []Source
	units   uint32
	docs    [fieldEnd]uint32 // the number of documents of each field

	docTable func() ([]byte, error) // read once, because each candidate needs it
	newest   func() int64           // the time of the newest document
	// hidden has the sources whose documents are no results: of a thread that is deleted, or of another state of a session.
	hidden []bool
	// replaced has, for a source with replaced checkpoints, their seqs.
	replaced []map[int64]bool
}

// dictStart is the beginning of a block of the dictionary.
type dictStart struct {
	key      string
	at       int64 // in the dictionary
	postings int64 // where the lists of its terms begin
}

// docCounts is the size of the numbers of documents in front of their records.
const docCounts = 4 * int64(fieldEnd)

// The sections of a segment, by the number of their end.
const (
	secLists = iota
	secDict
	secFirst
	secPlaces
	secUnits
	secDocs
	secSources
)

// openSegment opens the segment in a file of length bytes.
func openSegment(file io.ReaderAt, length int64, z Sealer) (*segment, error) {
	p, err := openPages(file, length, z)
	if err != nil {
		return nil, err
	}
	s := &segment{pages: p, size: length, close: func() error { return nil }}
	s.docTable = sync.OnceValues(func() ([]byte, error) { return s.section(secDocs) })
	s.newest = sync.OnceValue(s.findNewest)
	return s, s.readSections()
}

func (s *segment) readSections() error {
	footer, err := s.pages.read(s.pages.size-footerSize, footerSize)
	if err != nil {
		return err
	}
	before := int64(0)
	for i := range s.ends {
		end := binary.LittleEndian.Uint64(footer[8*i:])
		if end > uint64(s.pages.size-footerSize) || int64(end) < before {
			return errDamaged
		}
		s.ends[i], before = int64(end), int64(end)
	}
	if before != s.pages.size-footerSize {
		return errDamaged
	}
	sources, err := s.section(secSources)
	if err != nil {
		return err
	}
	var ok bool
	if s.sources, ok = decodeSources(sources); !ok {
		return errDamaged
	}
	counts, err := s.pages.read(s.start(secDocs), docCounts)
	if err != nil || s.length(secDocs) < docCounts {
		return errDamaged
	}
	docs, units := int64(0), s.length(secPlaces)
	for f := range s.docs {
		s.docs[f] = binary.LittleEndian.Uint32(counts[4*f:])
		docs += int64(s.docs[f])
	}
	if docCounts+docs*docSize != s.length(secDocs) || units%4 != 0 || max(docs, units/4) > math.MaxInt32 {
		return errDamaged
	}
	s.units = uint32(units / 4)
	s.hidden, s.replaced = make([]bool, len(s.sources)), make([]map[int64]bool, len(s.sources))
	return s.readStarts()
}

func (s *segment) start(section int) int64 {
	if section == 0 {
		return 0
	}
	return s.ends[section-1]
}

func (s *segment) length(section int) int64 { return s.ends[section] - s.start(section) }

func (s *segment) section(section int) ([]byte, error) {
	return s.pages.read(s.start(section), s.length(section))
}

// readStarts reads the first terms of the blocks of the dictionary.
func (s *segment) readStarts() error {
	data, err := s.section(secFirst)
	if err != nil {
		return err
	}
	r := byteReader{data: data}
	n := r.uvarint(uint64(len(data)))
	s.first = make([]dictStart, 0, n)
	for range n {
		d := dictStart{key: string(r.bytes()), at: int64(r.uvarint(uint64(s.length(secDict)))), postings: int64(r.uvarint(uint64(s.length(secLists))))}
		if i := len(s.first) - 1; r.failed || i >= 0 && (d.key <= s.first[i].key || d.at <= s.first[i].at || d.postings < s.first[i].postings) {
			return errDamaged
		}
		s.first = append(s.first, d)
	}
	if len(r.data) > 0 {
		return errDamaged
	}
	return nil
}

// dictEntry is a term with the place of its list.
type dictEntry struct {
	key      string
	n        uint32
	at, size int64
}

// entries calls visit for the terms from a key on, in their order, until it returns false.
func (s *segment) entries(from string, visit func(dictEntry) bool) error {
	b := max(0, sort.Search(len(s.first), func(i int) bool { return s.first[i].key > from })-1)
	for ; b < len(s.first); b++ {
		end := s.length(secDict)
		if b+1 < len(s.first) {
			end = s.first[b+1].at
		}
		data, err := s.pages.read(s.start(secDict)+s.first[b].at, end-s.first[b].at)
		if err != nil {
			return err
		}
		r := byteReader{data: data}
		at, key := s.first[b].postings, make([]byte, 0, maxTerm+1)
		for len(r.data) > 0 {
			key = append(key[:r.uvarint(uint64(len(key)))], r.bytes()...)
			n, size := r.uvarint(math.MaxInt32), int64(r.uvarint(uint64(s.length(secLists))))
			if r.failed || len(key) == 0 || at+size > s.length(secLists) {
				return errDamaged
			}
			if string(key) >= from && !visit(dictEntry{string(key), uint32(n), at, size}) {
				return nil
			}
			at += size
		}
		if r.failed {
			return errDamaged
		}
	}
	return nil
}

// pull returns a function that reads the dictionary, one entry a call. The caller calls stop at last.
func (s *segment) pull(failed *error) (next func() (dictEntry, bool), stop func()) {
	return iter.Pull(func(yield func(dictEntry) bool) { *failed = s.entries("", yield) })
}

// list returns the list of a dictionary entry.
func (s *segment) list(e dictEntry) (*postings, error) {
	data, err := s.pages.read(e.at, e.size)
	if err != nil {
		return nil, err
	}
	f := Field(e.key[len(e.key)-1])
	if f >= fieldEnd {
		return nil, errDamaged
	}
	return readPostings(data, e.n, s.docs[f], fieldTraits[f].hasPositions)
}

// find returns the entry of a term in a field.
func (s *segment) find(term string, f Field) (e dictEntry, ok bool, err error) {
	key := term + string([]byte{byte(f)})
	err = s.entries(key, func(found dictEntry) bool {
		e, ok = found, found.key == key
		return false
	})
	return e, ok, err
}

// maxExpanded is the number of terms that a prefix stands for.
const maxExpanded = 1024

// expand returns the entries of the terms with a prefix in a field. isAll is false if there are more.
func (s *segment) expand(prefix string, f Field) (all []dictEntry, isAll bool, err error) {
	isAll = true
	err = s.entries(prefix, func(e dictEntry) bool {
		if !strings.HasPrefix(e.key, prefix) {
			return false
		}
		if e.key[len(e.key)-1] == byte(f) {
			if len(all) == maxExpanded {
				isAll = false
				return false
			}
			all = append(all, e)
		}
		return true
	})
	return all, isAll, err
}

// doc is the record of a document.
type doc struct {
	unit, time, source uint32
	field              Field
}

// doc returns the i-th document of a field.
func (s *segment) doc(f Field, i uint32) (d doc, err error) {
	table, err := s.docTable()
	if err != nil {
		return d, err
	}
	if i >= s.docs[f] {
		return d, errDamaged
	}
	for _, n := range s.docs[:f] {
		i += n
	}
	r := table[docCounts+int64(i)*docSize:]
	d = doc{binary.LittleEndian.Uint32(r), binary.LittleEndian.Uint32(r[4:]), binary.LittleEndian.Uint32(r[8:]), f}
	if d.unit >= s.units || int(d.source) >= len(s.sources) {
		return d, errDamaged
	}
	return d, nil
}

// findNewest returns the time of the newest document. If the table is damaged, the search finds that later.
func (s *segment) findNewest() (newest int64) {
	for f, n := range s.docs {
		for i := range n {
			if d, err := s.doc(Field(f), i); err == nil {
				newest = max(newest, int64(d.time))
			}
		}
	}
	return newest
}

// unit returns a unit.
func (s *segment) unit(i uint32) (u Unit, err error) {
	place, err := s.pages.read(s.start(secPlaces)+4*int64(i), 4)
	if err != nil {
		return u, err
	}
	at := int64(binary.LittleEndian.Uint32(place))
	const longest = 2*binary.MaxVarintLen64 + binary.MaxVarintLen32 + 1024 // an id has at most 1,024 bytes
	left := s.length(secUnits) - at
	if left <= 0 {
		return u, errDamaged
	}
	data, err := s.pages.read(s.start(secUnits)+at, min(longest, left))
	if err != nil {
		return u, err
	}
	r := byteReader{data: data}
	u.Seq, u.Time = r.varint(), r.varint()
	u.Commit = segno.CommitID(r.bytes())
	if r.failed {
		return u, errDamaged
	}
	return u, nil
}

// varint reads a signed number.
func (r *byteReader) varint() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

// isHidden reports whether a document is not a result.
func (s *segment) isHidden(d doc) (bool, error) {
	if s.hidden[d.source] || s.replaced[d.source] == nil {
		return s.hidden[d.source], nil
	}
	u, err := s.unit(d.unit)
	return s.replaced[d.source][u.Seq], err
}
