package secret

import "bytes"

const (
	// pieceSize is how much a layer takes at once.
	pieceSize = 64 << 10
	// maxBefore and maxWindow bound the text that a rule may need around a keyword. A test checks
	// that the rules stay within them.
	maxBefore = 2 << 10
	maxWindow = 10 << 10
	// maxDepth is how often a JSON string is decoded inside a decoded one.
	maxDepth = 3
)

// A layer is one form of a file's text: the bytes of the file, the text of the JSON strings
// in them, the strings inside that text, or the text that base64 hid. It keeps the end of its text
// until every rule has processed as much of it as the rule may need.
type layer struct {
	scan  *Scan
	depth int
	text  bool // whether to look for encoded text in this layer

	buf      []byte
	state    uint32 // of the automaton, behind buf
	searched int    // how much of buf the automaton has read
	waiting  []hit  // keywords that still need text behind them

	record  int // the line at buf's beginning, in the raw layer
	strings stringDecoder
	base64  base64Decoder
	decoded *layer // the text of JSON strings
	hidden  *layer // the text of base64
}

// A hit is an occurrence of a word, which ends at an offset of buf.
type hit struct {
	end  int
	word word
}

func (l *layer) write(p []byte) {
	l.buf = append(l.buf, p...)
	l.search()
	l.check(false)
	if l.text {
		l.decode(p)
	}
	l.discard()
}

// end ends the text, or a separate part of it: the layers of decoded text end with each line of
// the raw text.
func (l *layer) end() {
	l.check(true)
	if l.text {
		l.strings.end(l)
		l.base64.end(l)
	}
	for _, inner := range []*layer{l.decoded, l.hidden} {
		if inner != nil {
			inner.end()
		}
	}
	if l.depth > 0 {
		l.buf, l.searched, l.state = l.buf[:0], 0, 0
	}
}

// search runs the automaton over the new part of buf.
func (l *layer) search() {
	s := l.scan.scanner
	base := l.searched
	l.state = s.words.find(l.state, l.buf[base:], func(end int, words []word) {
		for _, w := range words {
			// This rules out most places without a copy of the hit.
			start := base + end - w.length
			if t := s.tokens[w.index]; t != "" && (string(l.buf[start:base+end]) != t || start > 0 && isWord(l.buf[start-1])) {
				continue
			}
			l.waiting = append(l.waiting, hit{base + end, w})
		}
	})
	l.searched = len(l.buf)
}

// check tries the rules of the hits that have enough text behind them, or of all hits if all is set.
func (l *layer) check(all bool) {
	n := 0
	for _, h := range l.waiting {
		r := l.scan.scanner.rules[h.word.index]
		if !all && h.end-h.word.length+r.window > len(l.buf) {
			l.waiting[n] = h
			n++
			continue
		}
		l.scan.try(l, r, h)
	}
	l.waiting = l.waiting[:n]
}

// discard drops the text that no rule needs any more.
func (l *layer) discard() {
	keep := len(l.buf) - maxBefore
	for _, h := range l.waiting {
		keep = min(keep, h.end-h.word.length-maxBefore)
	}
	if keep < pieceSize/2 {
		return
	}
	if l.depth == 0 {
		l.record += bytes.Count(l.buf[:keep], newline)
	}
	l.buf = append(l.buf[:0], l.buf[keep:]...)
	l.searched -= keep
	for i := range l.waiting {
		l.waiting[i].end -= keep
	}
}

var newline = []byte{'\n'}

// recordAt returns the line of an offset of buf.
func (l *layer) recordAt(offset int) int {
	if l.depth > 0 {
		return l.scan.line
	}
	return l.record + bytes.Count(l.buf[:offset], newline)
}

// decode looks for encoded text in a piece and writes it to the inner layers. Inner layers
// end with each line of the raw text, because neither a JSON string nor unwrapped base64
// continues beyond it. Their hits therefore belong to the current line.
func (l *layer) decode(p []byte) {
	if l.depth > 0 {
		l.strings.write(l, p)
		l.base64.write(l, p)
		return
	}
	l.scan.line = l.recordAt(len(l.buf) - len(p))
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i+1]
		}
		l.strings.write(l, part)
		l.base64.write(l, part)
		p = p[len(part):]
		if i < 0 {
			return
		}
		for _, inner := range []*layer{l.decoded, l.hidden} {
			if inner != nil && inner.used() {
				inner.end()
			}
		}
		l.scan.line++
	}
}

// used reports whether the layer has received text since its last end.
func (l *layer) used() bool {
	return len(l.buf) > 0 || l.decoded != nil && l.decoded.used() || l.hidden != nil && l.hidden.used()
}

// inner returns one of the layers inside l. It creates the layer at the first use.
func (l *layer) inner(which **layer, text bool) *layer {
	if *which == nil {
		*which = &layer{scan: l.scan, depth: l.depth + 1, text: text}
	}
	return *which
}
