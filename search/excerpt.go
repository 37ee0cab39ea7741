package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno/internal/history"
)

// Excerpt is a match in a text with the words around it, on one line.
type Excerpt struct {
	Before string `json:"before"`
	Match  string `json:"match"`
	After  string `json:"after"`
}

// The number of bytes of an excerpt before and after the match. Fewer are before it, so that a narrow page shows it.
const beforeMatch, afterMatch = 40, 90

// FindText returns the first match of a needle in a text, which need not agree in case or in white space. needle is in lower
// case, with single spaces. An empty needle matches the beginning.
func FindText(text, needle string) (Excerpt, bool) {
	at, length := indexFold(text, needle)
	if at < 0 && strings.Contains(needle, " ") {
		text = OneLine(text) // the words of the text may be on several lines
		at, length = indexFold(text, needle)
	}
	if at < 0 {
		return Excerpt{}, false
	}
	return excerptOf(text, at, length), true
}

// excerptOf cuts the excerpt out of a text, between words where that is possible.
func excerptOf(text string, at, length int) Excerpt {
	before, after := lastBytes(text[:at], beforeMatch), history.Cut(text[at+length:], afterMatch)
	x := Excerpt{Before: OneLine(before), Match: OneLine(text[at : at+length]), After: OneLine(after)}
	if len(before) < at {
		if _, words, ok := strings.Cut(x.Before, " "); ok {
			x.Before = words
		}
		x.Before = "…" + x.Before
	}
	if len(after) < len(text)-at-length {
		if i := strings.LastIndexByte(x.After, ' '); i > 0 {
			x.After = x.After[:i]
		}
		x.After += "…"
	}
	x.Before, x.After = strings.TrimLeft(x.Before, " "), strings.TrimRight(x.After, " ")
	return x
}

// OneLine replaces each run of white space by one space.
func OneLine(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	wasSpace := false
	for _, r := range text {
		isSpace := unicode.IsSpace(r)
		switch {
		case !isSpace:
			b.WriteRune(r)
		case !wasSpace:
			b.WriteByte(' ')
		}
		wasSpace = isSpace
	}
	return b.String()
}

// indexFold returns the first match of a lower-case needle in a text, and the length of the
// match.
func indexFold(text, needle string) (at, length int) {
	lower := strings.ToLower(text)
	i := strings.Index(lower, needle)
	if i < 0 {
		return -1, 0
	}
	if len(lower) == len(text) {
		return i, len(needle)
	}
	// Some characters have a different length in lower case: count characters instead of bytes.
	skip, n := utf8.RuneCountInString(lower[:i]), utf8.RuneCountInString(needle)
	start, end := -1, len(text)
	for at := range text {
		if skip == 0 && start < 0 {
			start = at
		}
		if skip == -n {
			end = at
			break
		}
		skip--
	}
	if start < 0 {
		return -1, 0
	}
	return start, end - start
}

// lastBytes returns the last n bytes of a text, or fewer, so that the result begins with a whole
// character.
func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - n
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}
