package search

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// Source is the origin of documents, with the part of it that a segment has: the commits of a thread from one seq to another,
// or a session of an agent in one state of its file.
type Source struct {
	Thread segno.ThreadID
	From   int64 // the first seq and the last one, or the turns of a session
	To     int64
	// Replaced has the seqs of checkpoints that checkpoints of this source amend, and that another segment may have.
	Replaced []int64

	Agent   string
	Session segno.SessionID
	Path    string // of the session's file
	Stamp   string // the state of the file; a session with another state is another source
}

// sessionKey identifies the session of a source; see [Session].
func (s *Source) sessionKey() string { return s.Agent + "\x00" + string(s.Session) + "\x00" + s.Path }

// Unit is a checkpoint, or a turn of a session.
type Unit struct {
	Commit segno.CommitID // "" for a turn of a session
	Seq    int64          // of the commit, or the number of the turn in the session
	Time   int64          // in seconds since 1970
}

// Text has the texts of a unit, by field.
type Text [fieldEnd][]string

// builder makes a segment. A goroutine adds the texts while the caller reads the next ones; stop ends it.
type builder struct {
	sources []Source
	bytes   int64 // of the texts
	work    chan work
	done    chan struct{}
	stop    func()

	units   []byte
	unitAt  []uint32
	docs    [fieldEnd][]byte
	lengths [fieldEnd][]uint32 // of the documents, in terms
	terms   map[string]int32   // the term and its field
	lists   []*openList
	words   tokenizer
	key     []byte
}

// work is a unit to add.
type work struct {
	unit   Unit
	text   *Text
	source uint32
}

// openList is a list with the document to which terms are being added.
type openList struct {
	list
	doc uint32
	tf  uint32
	at  []uint32 // positions
}

func newBuilder() *builder {
	b := &builder{terms: map[string]int32{}, work: make(chan work, 16), done: make(chan struct{})}
	b.stop = sync.OnceFunc(func() {
		close(b.work)
		<-b.done
	})
	go func() {
		defer close(b.done)
		for w := range b.work {
			b.addUnit(w)
		}
	}()
	return b
}

// textGap is the number of positions between two texts of a document, so that no phrase goes across them.
const textGap = 8

// docSize is the size of the record of a document: its unit, its time and its source.
const docSize = 12

// addSource begins a source. The following units are of this source.
func (b *builder) addSource(s Source) { b.sources = append(b.sources, s) }

// source returns the present source, whose limits the caller may change.
func (b *builder) source() *Source { return &b.sources[len(b.sources)-1] }

// add adds a unit with its texts, which the caller must not change.
func (b *builder) add(u Unit, text *Text) {
	for _, texts := range text {
		for _, t := range texts {
			b.bytes += int64(len(t))
		}
	}
	b.work <- work{u, text, uint32(len(b.sources) - 1)}
}

func (b *builder) addUnit(w work) {
	u, text := w.unit, w.text
	number := uint32(len(b.unitAt))
	b.unitAt = append(b.unitAt, uint32(len(b.units)))
	b.units = appendUnit(b.units, u)
	for f := Prompt; f < fieldEnd; f++ {
		if len(text[f]) > 0 {
			b.docs[f] = appendDoc(b.docs[f], number, u.Time, w.source)
			b.addDocument(f, text[f])
		}
	}
}

func appendUnit(out []byte, u Unit) []byte {
	out = binary.AppendVarint(out, u.Seq)
	out = binary.AppendVarint(out, u.Time)
	return appendBytes(out, string(u.Commit))
}

func appendDoc(out []byte, unit uint32, at int64, source uint32) []byte {
	out = binary.LittleEndian.AppendUint32(out, unit)
	out = binary.LittleEndian.AppendUint32(out, uint32(min(max(at, 0), math.MaxUint32)))
	return binary.LittleEndian.AppendUint32(out, source)
}

// addDocument adds the terms of a document.
func (b *builder) addDocument(f Field, texts []string) {
	doc := uint32(len(b.lengths[f]))
	var length, pos uint32
	for _, text := range texts {
		pos = textGap + b.words.each(text, pos, func(term []byte, at uint32, isWhole bool, _, _ int) {
			if isWhole && !fieldTraits[f].hasPositions {
				return
			}
			if !isWhole {
				length++
			}
			l := b.list(term, f)
			if l.tf == 0 || l.doc != doc {
				b.close(l, f)
				l.doc = doc
			}
			if l.tf++; fieldTraits[f].hasPositions {
				l.at = append(l.at, at)
			}
		})
	}
	b.lengths[f] = append(b.lengths[f], length)
}

// list returns the list of a term in a field.
func (b *builder) list(term []byte, f Field) *openList {
	b.key = append(append(b.key[:0], term...), byte(f))
	if i, ok := b.terms[string(b.key)]; ok {
		return b.lists[i]
	}
	l := &openList{}
	b.terms[string(b.key)] = int32(len(b.lists))
	b.lists = append(b.lists, l)
	return l
}

// close adds the document of a list, whose length is known now.
func (b *builder) close(l *openList, f Field) {
	if l.tf > 0 {
		l.add(l.doc, impactOf(f, l.tf, b.lengths[f][l.doc]), l.at)
		l.tf, l.at = 0, l.at[:0]
	}
}

// content returns the content of the segment.
func (b *builder) content() []byte {
	b.stop()
	w := newWriter()
	keys := make([]string, 0, len(b.terms))
	for key := range b.terms {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		l := b.lists[b.terms[key]]
		b.close(l, Field(key[len(key)-1]))
		w.addList(key, &l.list)
	}
	return w.finish(b.sources, b.unitAt, b.units, &b.docs)
}

// writer writes the sections of a segment: the lists, in the order of their terms; the dictionary in blocks of
// dictBlock terms, with the first term of each block; units; documents; sources; and the places of the sections.
type writer struct {
	out    []byte // the lists
	dict   []byte
	first  []byte // of each block: its first term, its place, and the place of its lists
	blocks uint64
	n      int
	before string
}

const dictBlock = 64

func newWriter() *writer { return &writer{} }

// addList adds the list of a term, whose key is greater than the ones before.
func (w *writer) addList(key string, l *list) {
	if w.n%dictBlock == 0 {
		w.first = appendBytes(w.first, key)
		w.first = binary.AppendUvarint(w.first, uint64(len(w.dict)))
		w.first = binary.AppendUvarint(w.first, uint64(len(w.out)))
		w.before = ""
		w.blocks++
	}
	at := len(w.out)
	w.out = l.appendTo(w.out)
	shared := sharedPrefix(w.before, key)
	w.dict = binary.AppendUvarint(w.dict, uint64(shared))
	w.dict = appendBytes(w.dict, key[shared:])
	w.dict = binary.AppendUvarint(w.dict, uint64(l.n))
	w.dict = binary.AppendUvarint(w.dict, uint64(len(w.out)-at))
	w.before = key
	w.n++
}

func sharedPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// footerSize is the size of the places of the sections: the ends of the seven sections.
const sections, footerSize = 7, 8 * 7

// finish returns the content. The sections are: lists, dictionary, first terms, places of units, units, documents, sources.
func (w *writer) finish(sources []Source, unitAt []uint32, units []byte, docs *[fieldEnd][]byte) []byte {
	out := w.out
	var ends []uint64
	section := func(data []byte) {
		out = append(out, data...)
		ends = append(ends, uint64(len(out)))
	}
	section(nil)
	section(w.dict)
	section(append(binary.AppendUvarint(nil, w.blocks), w.first...))
	var places []byte
	for _, at := range unitAt {
		places = binary.LittleEndian.AppendUint32(places, at)
	}
	section(places)
	section(units)
	var table []byte
	for f := range docs {
		table = binary.LittleEndian.AppendUint32(table, uint32(len(docs[f])/docSize))
	}
	section(slices.Concat(table, slices.Concat(docs[:]...)))
	section(encodeSources(sources))
	for _, end := range ends {
		out = binary.LittleEndian.AppendUint64(out, end)
	}
	return out
}

func encodeSources(all []Source) []byte {
	out := binary.AppendUvarint(nil, uint64(len(all)))
	for i := range all {
		s := &all[i]
		for _, text := range []string{string(s.Thread), s.Agent, string(s.Session), s.Path, s.Stamp} {
			out = appendBytes(out, text)
		}
		out = binary.AppendUvarint(out, uint64(s.From))
		out = binary.AppendUvarint(out, uint64(s.To))
		out = binary.AppendUvarint(out, uint64(len(s.Replaced)))
		for _, seq := range s.Replaced {
			out = binary.AppendUvarint(out, uint64(seq))
		}
	}
	return out
}

func decodeSources(data []byte) (all []Source, ok bool) {
	r := byteReader{data: data}
	for range r.uvarint(uint64(len(data))) {
		text := func() string { return string(r.bytes()) }
		s := Source{Thread: segno.ThreadID(text()), Agent: text(), Session: segno.SessionID(text()), Path: text(), Stamp: text()}
		s.From, s.To = int64(r.uvarint(math.MaxInt64)), int64(r.uvarint(math.MaxInt64))
		for range r.uvarint(uint64(len(r.data))) {
			s.Replaced = append(s.Replaced, int64(r.uvarint(math.MaxInt64)))
		}
		if r.failed {
			return nil, false
		}
		all = append(all, s)
	}
	return all, !r.failed && len(r.data) == 0
}

// isSession reports whether the source is a session of an agent.
func (s *Source) isSession() bool { return s.Session != "" || s.Path != "" }

// overlaps reports whether two sources have documents of the same checkpoints, or of the same session in the same state.
func (s *Source) overlaps(o *Source) bool {
	if s.isSession() || o.isSession() {
		return s.sessionKey() == o.sessionKey() && s.Stamp == o.Stamp
	}
	return strings.Compare(string(s.Thread), string(o.Thread)) == 0 && s.From <= o.To && o.From <= s.To
}
