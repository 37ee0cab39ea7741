package secret

import "encoding/base64"

// A stringDecoder finds JSON strings in a text and writes those that contain an escape to
// the layer of decoded text. It needs no JSON around them: a quote begins a string, and a quote
// or the end of a line ends it.
type stringDecoder struct {
	inside  bool
	escaped bool   // the string has an escape: it is being written
	pending []byte // the string so far, decoded
	escape  []byte // an escape that has begun, with its backslash
	pairs   surrogates
}

// maxPending bounds how many bytes of a string without an escape stay in memory.
const maxPending = 16 << 10

func (d *stringDecoder) write(l *layer, p []byte) {
	for i := 0; i < len(p); {
		if !d.inside {
			for i < len(p) && p[i] != '"' {
				i++
			}
			if i < len(p) {
				d.inside = true
				i++
			}
			continue
		}
		if len(d.escape) > 0 {
			d.escape = append(d.escape, p[i])
			i++
			d.unescape()
			continue
		}
		start := i
		for i < len(p) && p[i] != '"' && p[i] != '\\' && p[i] != '\n' {
			i++
		}
		if i > start {
			d.pending = append(d.pairs.end(d.pending), p[start:i]...)
		}
		if len(d.pending) > maxPending {
			d.flush(l, false)
		}
		if i == len(p) {
			break
		}
		if p[i] == '\\' {
			d.escape = append(d.escape, '\\')
			d.escaped = true
		} else {
			d.end(l)
		}
		i++
	}
	if len(d.pending) > maxPending {
		d.flush(l, false)
	}
}

// end ends a string, or the text in the middle of one.
func (d *stringDecoder) end(l *layer) {
	d.flush(l, true)
	d.inside, d.escaped, d.escape, d.pairs = false, false, d.escape[:0], surrogates{}
}

// flush writes the pending part of a string that contains an escape. For any other string, it drops most of it.
func (d *stringDecoder) flush(l *layer, ends bool) {
	if d.escaped && l.depth < maxDepth {
		in := l.inner(&l.decoded, true)
		if ends && len(d.pending) > 0 {
			d.pending = append(d.pending, '\n') // no value goes from one string into the next
		}
		for p := d.pending; len(p) > 0; {
			n := min(len(p), pieceSize)
			in.write(p[:n])
			p = p[n:]
		}
		d.pending = d.pending[:0]
		return
	}
	if ends {
		d.pending = d.pending[:0]
		return
	}
	// The scan of the raw text covers this part. Keep its end, because a value may begin in it.
	d.pending = append(d.pending[:0], d.pending[len(d.pending)-maxPending/2:]...)
}

// unescape decodes the escape if it is complete. Text that is not an escape stays unchanged.
func (d *stringDecoder) unescape() {
	c := d.escape[1]
	if c == 'u' {
		if len(d.escape) < 6 {
			return
		}
		d.unicode()
		d.escape = d.escape[:0]
		return
	}
	d.pending = d.pairs.end(d.pending)
	switch c {
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b', 'f':
		c = ' '
	}
	d.pending = append(d.pending, c)
	d.escape = d.escape[:0]
}

func (d *stringDecoder) unicode() {
	var r rune
	for _, c := range d.escape[2:] {
		v, ok := hexDigit(c)
		if !ok {
			d.pending = append(d.pairs.end(d.pending), d.escape...)
			return
		}
		r = r<<4 | v
	}
	d.pending = d.pairs.append(d.pending, r)
}

func hexDigit(c byte) (rune, bool) {
	switch c = lower(c); {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	}
	return 0, false
}

// A base64Decoder finds runs of base64 that hide text, and writes the text to a separate layer.
type base64Decoder struct {
	run     []byte // the run, or its part that is not decoded yet
	started bool   // the run is text and its beginning is written
	skip    bool   // the run is not text
}

const (
	minRun  = 40      // shorter runs are words and identifiers
	probe   = 64      // this many characters of a run decide whether it is text
	runSize = 4 << 10 // this many characters are decoded at once; a multiple of 4
)

// base64Class marks the characters of both base64 alphabets.
var base64Class = func() (class [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_") {
		class[c] = true
	}
	return class
}()

func (d *base64Decoder) write(l *layer, p []byte) {
	for i := 0; i < len(p); {
		if len(d.run) == 0 && !d.skip && !d.started {
			// Between runs: a run of minRun characters covers one of every minRun places.
			for i+minRun <= len(p) && !base64Class[p[i+minRun-1]] {
				i += minRun
			}
			if i+minRun <= len(p) {
				j := i + minRun - 1
				for j > i && base64Class[p[j-1]] {
					j--
				}
				i = j
			}
		}
		start := i
		for i < len(p) && base64Class[p[i]] {
			i++
		}
		if i-start < minRun && i < len(p) && len(d.run) == 0 && !d.skip && !d.started {
			i++
			continue // a word: nearly always
		}
		d.take(l, p[start:i])
		if i < len(p) {
			d.end(l)
			i++
		}
	}
}

func (d *base64Decoder) take(l *layer, p []byte) {
	if d.skip || len(p) == 0 {
		return
	}
	d.run = append(d.run, p...)
	for len(d.run) >= runSize && !d.skip {
		d.decode(l, d.run[:runSize])
		if !d.skip {
			d.run = append(d.run[:0], d.run[runSize:]...)
		}
	}
}

// end ends a run.
func (d *base64Decoder) end(l *layer) {
	if !d.skip && (d.started || len(d.run) >= minRun) {
		d.decode(l, d.run)
		if l.hidden != nil && d.started {
			l.hidden.write(newline)
		}
	}
	d.run, d.started, d.skip = d.run[:0], false, false
}

// decode writes the text of a part of a run. The part begins at a multiple of 4 characters of the run.
func (d *base64Decoder) decode(l *layer, part []byte) {
	if !d.started && !isText(decodeBase64(part[:min(len(part), probe)])) {
		d.skip = true
		d.run = d.run[:0]
		return
	}
	d.started = true
	l.inner(&l.hidden, l.depth+1 < maxDepth).write(decodeBase64(part))
}

// decodeBase64 decodes either alphabet without padding. It leaves out a single character at the end
// that completes no byte.
func decodeBase64(part []byte) []byte {
	if len(part)%4 == 1 {
		part = part[:len(part)-1]
	}
	std := make([]byte, len(part))
	for i, c := range part {
		switch c {
		case '-':
			c = '+'
		case '_':
			c = '/'
		}
		std[i] = c
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(std)))
	n, _ := base64.RawStdEncoding.Decode(out, std) // the alphabet is checked
	return out[:n]
}

// isText reports whether nine of ten bytes are printable ASCII or space.
func isText(p []byte) bool {
	n := 0
	for _, c := range p {
		if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' || c == '\r' {
			n++
		}
	}
	return len(p) > 0 && n*10 >= len(p)*9
}
