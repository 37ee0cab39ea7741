package search

import (
	"encoding/binary"
	"math"
)

// A list has the documents of one term in one field, in ascending order: for each the difference of its number from the
// one before, and the impact of the term, which is its share of BM25 in four bits. The impact depends on the document
// alone, so lists of several segments can be compared and joined. Positions are apart, so that only phrases read them: for
// each its difference from the one before, and a bit that is set if another one of the document follows.
// Every blockSize documents are a block. The last document of each block and its highest impact are in front, so that a
// search can skip blocks.
type list struct {
	n, last         uint32 // the number of documents, the last one
	docs, positions []byte
	blocks          []block // the complete ones
	block           block   // the last one; most lists have only this
}

type block struct {
	last            uint32
	max             byte
	docs, positions uint32 // where the block ends
}

const blockSize = 128

// The parameters of BM25, and the largest weight of a term in a document.
const (
	bm25K1    = 1.2
	bm25B     = 0.75
	maxWeight = bm25K1 + 1
	impacts   = 1 << impactBits
)

const impactBits = 4

// impactOf returns the impact of a term that is tf times in a document of length terms.
func impactOf(field Field, tf, length uint32) byte {
	weight := float64(tf) * maxWeight / (float64(tf) + bm25K1*(1-bm25B+bm25B*float64(length)/fieldTraits[field].length))
	return byte(min(math.Ceil(weight/maxWeight*(impacts-1)), impacts-1))
}

// add adds a document, with the positions of the term unless its field has none.
func (l *list) add(doc uint32, impact byte, positions []uint32) {
	if l.n%blockSize == 0 && l.n > 0 {
		l.blocks = append(l.blocks, l.block)
		l.block.max = 0
	}
	l.docs = binary.AppendUvarint(l.docs, uint64(doc-l.last)<<impactBits|uint64(impact))
	l.positions = appendPositions(l.positions, positions)
	l.n, l.last = l.n+1, doc
	l.block = block{doc, max(l.block.max, impact), uint32(len(l.docs)), uint32(len(l.positions))}
}

// appendTo appends the encoded list. A list of one block has no skips.
func (l *list) appendTo(out []byte) []byte {
	if l.n > blockSize {
		var skips []byte
		var before block
		for _, b := range append(l.blocks, l.block) {
			skips = binary.AppendUvarint(skips, uint64(b.last-before.last))
			skips = append(skips, b.max)
			skips = binary.AppendUvarint(skips, uint64(b.docs-before.docs))
			skips = binary.AppendUvarint(skips, uint64(b.positions-before.positions))
			before = b
		}
		out = append(binary.AppendUvarint(out, uint64(len(skips))), skips...)
	}
	if len(l.positions) > 0 {
		out = binary.AppendUvarint(out, uint64(len(l.docs)))
	}
	return append(append(out, l.docs...), l.positions...)
}

// postings reads a list. The caller checks err when it is at the end.
type postings struct {
	n         uint32 // the number of documents
	blocks    []block
	docsBytes []byte // all blocks
	posBytes  []byte

	b       int // the block that is decoded, or -1
	docs    []uint32
	impacts []byte
	i       int      // the present document in docs
	pos     []uint32 // of all documents in docs
	posEnd  []int    // of each document, in pos; nil if pos is not decoded
	err     error
}

// endOfList is the document behind the last one.
const endOfList = math.MaxUint32

// readPostings decodes a list of n documents. docs is the number of documents of the segment.
func readPostings(data []byte, n, docs uint32, hasPositions bool) (*postings, error) {
	if n == 0 || n > docs {
		return nil, errDamaged
	}
	r := byteReader{data: data}
	p := &postings{n: n, b: -1}
	if n > blockSize {
		skips := byteReader{data: r.bytes()}
		var b block
		for range (n + blockSize - 1) / blockSize {
			b.last += uint32(skips.uvarint(uint64(docs)))
			b.max = skips.byte()
			b.docs += uint32(skips.uvarint(math.MaxInt32))
			b.positions += uint32(skips.uvarint(math.MaxInt32))
			p.blocks = append(p.blocks, b)
			if skips.failed || b.last >= docs {
				return nil, errDamaged
			}
		}
	}
	if p.docsBytes = r.data; hasPositions {
		p.docsBytes = r.bytes()
		p.posBytes = r.data
	}
	if n <= blockSize {
		p.blocks = []block{{last: docs - 1, max: impacts - 1, docs: uint32(len(p.docsBytes)), positions: uint32(len(p.posBytes))}}
	}
	if end := p.blocks[len(p.blocks)-1]; r.failed || int(end.docs) != len(p.docsBytes) || int(end.positions) != len(p.posBytes) {
		return nil, errDamaged
	}
	if p.load(0); n <= blockSize && p.err == nil {
		p.blocks[0].last, p.blocks[0].max = p.docs[len(p.docs)-1], 0
		for _, impact := range p.impacts {
			p.blocks[0].max = max(p.blocks[0].max, impact)
		}
	}
	return p, p.err
}

// doc returns the present document, or endOfList.
func (p *postings) doc() uint32 {
	if p.i < len(p.docs) {
		return p.docs[p.i]
	}
	return endOfList
}

func (p *postings) impact() byte { return p.impacts[p.i] }

// load decodes a block.
func (p *postings) load(b int) {
	p.b, p.i, p.posEnd = b, 0, nil
	p.docs, p.impacts = p.docs[:0], p.impacts[:0]
	if b >= len(p.blocks) {
		return
	}
	var before block
	if b > 0 {
		before = p.blocks[b-1]
	}
	end := p.blocks[b]
	if before.docs > end.docs || int(end.docs) > len(p.docsBytes) {
		p.err = errDamaged
		return
	}
	data, doc := p.docsBytes[before.docs:end.docs], before.last
	for len(data) > 0 {
		v, n := binary.Uvarint(data)
		delta := v >> impactBits
		if n <= 0 || delta > uint64(end.last-doc) || len(p.docs) > 0 && delta == 0 {
			p.err, p.docs = errDamaged, p.docs[:0]
			return
		}
		doc += uint32(delta)
		p.docs, p.impacts = append(p.docs, doc), append(p.impacts, byte(v&(impacts-1)))
		data = data[n:]
	}
	if want := min(blockSize, int(p.n)-b*blockSize); len(p.docs) != want {
		p.err, p.docs = errDamaged, p.docs[:0]
	}
}

func (p *postings) next() {
	if p.i++; p.i >= len(p.docs) && p.b < len(p.blocks) {
		p.load(p.b + 1)
	}
}

// seek moves forward to the first document from target on.
func (p *postings) seek(target uint32) {
	if b := p.blockOf(target); b != p.b {
		p.load(b)
	}
	for p.i < len(p.docs) && p.docs[p.i] < target {
		p.i++
	}
}

// blockOf returns the first block, from the present one on, that may have a document from target on.
func (p *postings) blockOf(target uint32) int {
	b := p.b
	for b < len(p.blocks) && p.blocks[b].last < target {
		b++
	}
	return b
}

// positions returns the positions of the term in the present document.
func (p *postings) positions() []uint32 {
	if p.posEnd == nil && len(p.posBytes) > 0 {
		p.loadPositions()
	}
	if p.i >= len(p.posEnd) {
		return nil
	}
	from := 0
	if p.i > 0 {
		from = p.posEnd[p.i-1]
	}
	return p.pos[from:p.posEnd[p.i]]
}

func (p *postings) loadPositions() {
	var from uint32
	if p.b > 0 {
		from = p.blocks[p.b-1].positions
	}
	to := p.blocks[p.b].positions
	p.pos, p.posEnd = p.pos[:0], make([]int, 0, len(p.docs))
	if from > to || int(to) > len(p.posBytes) {
		p.err = errDamaged
		return
	}
	r := byteReader{data: p.posBytes[from:to]}
	for range p.docs {
		var pos uint32
		for more := true; more; {
			v := r.uvarint(math.MaxUint64)
			pos += uint32(v >> 1)
			p.pos = append(p.pos, pos)
			more = v&1 != 0
		}
		p.posEnd = append(p.posEnd, len(p.pos))
	}
	if r.failed {
		p.err, p.posEnd = errDamaged, []int{}
	}
}

// byteReader reads encoded values. After an error it returns zero values.
type byteReader struct {
	data   []byte
	failed bool
}

func (r *byteReader) fail() { r.failed, r.data = true, nil }

// uvarint reads a number of at most most.
func (r *byteReader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > most {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *byteReader) byte() byte {
	if len(r.data) == 0 {
		r.fail()
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// bytes reads bytes behind their number.
func (r *byteReader) bytes() []byte {
	n := r.uvarint(uint64(len(r.data)))
	if n > uint64(len(r.data)) {
		r.fail()
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// appendPositions appends the positions of a term in a document.
func appendPositions(out []byte, all []uint32) []byte {
	var before uint32
	for i, pos := range all {
		more := uint64(0)
		if i+1 < len(all) {
			more = 1
		}
		out = binary.AppendUvarint(out, uint64(pos-before)<<1|more)
		before = pos
	}
	return out
}

func appendBytes(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}
