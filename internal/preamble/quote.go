package preamble

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

var escape = regexp.MustCompile(`\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])`)

// plain returns s as text of at most most bytes: valid, with \n the only break,
// without what a reader cannot see.
func plain(s string, most int) string {
	s = strings.ToValidUTF8(clip(s, 2*most), string(unicode.ReplacementChar))
	if strings.ContainsRune(s, '\x1b') {
		s = escape.ReplaceAllString(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\u200c', r == '\u200d':
			return r
		case r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
			return '\n'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
	return clip(s, most)
}

// detail is plain text of an input or an answer. What is not text at all is not
// shown.
func detail(s string) string {
	s = strings.TrimSpace(plain(s, keepDetail))
	if strings.Count(s, string(unicode.ReplacementChar))*16 > len(s) {
		return "bytes that are not text"
	}
	return s
}

// clip cuts the middle out of a text that is longer than most bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	note := fmt.Sprintf("\n%s about %d bytes left out %s\n", ellipsis, len(s)-most, ellipsis)
	if most < 2*len(note) {
		return ends(s, most, ellipsis)
	}
	return ends(s, most, note)
}

// ends keeps the two ends of s, with between in place of the middle, in at most
// most bytes.
func ends(s string, most int, between string) string {
	if len(s) <= most {
		return s
	}
	keep := most - len(between)
	if keep < 0 {
		return ""
	}
	head, tail := keep-keep/2, len(s)-keep/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + between + s[tail:]
}

// line is s in one line of at most most bytes.
func line(s string, most int) string {
	return ends(strings.Join(strings.Fields(s), " "), most, " "+ellipsis+" ")
}

var straight = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‟", `"`)

// quote is s in one line between quotation marks that it cannot close.
func quote(s string, most int) string {
	return "“" + line(straight.Replace(s), most) + "”"
}

// block is s with a mark before each of its lines, in at most most bytes, or "" if
// they are too few.
func block(s string, most int) string {
	whole := marked(s)
	for room := most; len(whole) > most && room > 0; room -= max(1, len(whole)-most) {
		whole = marked(clip(s, room))
	}
	if len(whole) > most {
		return ""
	}
	return whole
}

func marked(s string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		b.WriteString(strings.TrimRight("> "+l, " \t") + "\n")
	}
	return b.String()
}

// times is a number of times in words.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

// name is a tool's name as it can stand in a sentence.
func name(s string) string {
	const most = 60
	s = line(plain(s, 4*most), most)
	odd := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.:/-", r)
	}
	if strings.ContainsFunc(s, odd) {
		return quote(s, most)
	}
	return s
}
