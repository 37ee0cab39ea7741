package search

import (
	"unicode"
	"unicode/utf8"
)

const (
	maxTerm = 64  // bytes; a longer term is cut, in texts and in queries
	maxWord = 128 // bytes; a longer word, such as a line of base64, is one term
)

// tokenizer splits texts into terms. A word is a run of letters, digits and underscores. Its parts are its terms: those of
// rateLimiter and of rate_limiter are rate and limiter, which have consecutive positions. So a path, a phrase and a name
// in code are sequences of terms. A word of several parts is also one further term, ratelimiter, at the position of its
// first part. A character of a script without spaces is a word.
type tokenizer struct {
	lower []byte // the word in lower case, without underscores
	parts []part
	last  part // the place of the last character
	upper int  // the number of upper-case letters at the end of lower
	class class
}

// part is a part of a word: its bytes in lower, and in the text.
type part struct{ begin, end, from, to int }

// visitTerm receives a term, its position, and its place in the text. The term is valid until visitTerm returns.
type visitTerm func(term []byte, pos uint32, isWhole bool, from, to int)

type class uint8

const (
	other class = iota
	lowerCase
	upperCase
	underscore
	single // a word of one character
)

func asciiClass(c byte) class {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return lowerCase
	case 'A' <= c && c <= 'Z':
		return upperCase
	case c == '_':
		return underscore
	}
	return other
}

func classOf(r rune) class {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer):
		return single
	case unicode.IsUpper(r):
		return upperCase
	case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
		return lowerCase
	}
	return other
}

// each visits the terms of a text. The first has the position pos. It returns the position after the last one.
func (t *tokenizer) each(text string, pos uint32, visit visitTerm) uint32 {
	for i := 0; i < len(text); {
		c, size := text[i], 1
		kind, r := other, rune(c)
		if c < utf8.RuneSelf {
			kind = asciiClass(c)
		} else {
			r, size = utf8.DecodeRuneInString(text[i:])
			kind = classOf(r)
		}
		switch kind {
		case other:
			pos = t.endWord(pos, visit)
		case single:
			pos = t.endWord(pos, visit)
			t.add(r, lowerCase, i, size)
			pos = t.endWord(pos, visit)
		default:
			t.add(r, kind, i, size)
		}
		i += size
	}
	return t.endWord(pos, visit)
}

// add adds a character of a word, at a place in the text.
func (t *tokenizer) add(r rune, kind class, at, size int) {
	if kind == underscore {
		t.class, t.upper = underscore, 0
		return
	}
	switch {
	case len(t.parts) == 0, t.class == underscore, kind == upperCase && t.class == lowerCase:
		t.parts = append(t.parts, part{len(t.lower), len(t.lower), at, at})
	case kind == lowerCase && t.upper > 1: // the last capital of HTTPServer begins a part
		p := &t.parts[len(t.parts)-1]
		p.end, p.to = t.last.begin, t.last.from
		t.parts = append(t.parts, t.last)
	}
	t.last = part{begin: len(t.lower), from: at}
	switch {
	case r < utf8.RuneSelf && kind == upperCase:
		t.lower = append(t.lower, byte(r)+'a'-'A')
	case r < utf8.RuneSelf:
		t.lower = append(t.lower, byte(r))
	default:
		t.lower = utf8.AppendRune(t.lower, unicode.ToLower(r))
	}
	p := &t.parts[len(t.parts)-1]
	p.end, p.to = len(t.lower), at+size
	if t.class = kind; kind == upperCase {
		t.upper++
	} else {
		t.upper = 0
	}
}

// endWord visits the terms of the word, if there is one.
func (t *tokenizer) endWord(pos uint32, visit visitTerm) uint32 {
	n := len(t.parts)
	if n == 0 {
		t.class = other
		return pos
	}
	from, to := t.parts[0].from, t.parts[n-1].to
	if n > 1 && len(t.lower) > maxWord {
		n = 1
		t.parts = append(t.parts[:0], part{0, len(t.lower), from, to})
	}
	for _, p := range t.parts {
		visit(t.lower[p.begin:min(p.end, p.begin+maxTerm)], pos, false, p.from, p.to)
		pos++
	}
	if n > 1 {
		visit(t.lower[:min(len(t.lower), maxTerm)], pos-uint32(n), true, from, to)
	}
	t.lower, t.parts, t.class, t.upper = t.lower[:0], t.parts[:0], other, 0
	return pos
}
