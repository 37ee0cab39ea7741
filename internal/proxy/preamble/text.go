package preamble

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// escapeSequence matches the control sequences of terminals.
var escapeSequence = regexp.MustCompile(`\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])`)

// plain returns s as text of at most size bytes: valid UTF-8, with \n as the only line
// break, without invisible characters.
func plain(s string, size int) string {
	s = strings.ToValidUTF8(clip(s, 2*size), string(unicode.ReplacementChar))
	if strings.ContainsRune(s, '\x1b') {
		s = escapeSequence.ReplaceAllString(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return clip(strings.Map(plainRune, s), size)
}

// plainRune maps line breaks to \n and drops control and format characters, which could
// hide or rearrange text.
func plainRune(r rune) rune {
	switch {
	case r == '\n', r == '\t', r == '\u200c', r == '\u200d': // the last two join letters
		return r
	case strings.ContainsRune("\r\v\f\u0085\u2028\u2029", r):
		return '\n'
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// plainDetail returns the plain text of an input or an answer. It replaces binary content.
func plainDetail(s string) string {
	s = strings.TrimSpace(plain(s, maxDetail))
	if strings.Count(s, string(unicode.ReplacementChar))*16 > len(s) {
		return "bytes that are not text"
	}
	return s
}

// clip cuts the middle out of a text that is longer than size bytes.
func clip(s string, size int) string {
	if len(s) <= size {
		return s
	}
	note := fmt.Sprintf("\n%s about %d bytes left out %s\n", ellipsis, len(s)-size, ellipsis)
	if size < 2*len(note) {
		note = ellipsis
	}
	return keepEnds(s, size, note)
}

// keepEnds keeps the two ends of s, with between in place of the middle, in at most
// size bytes.
func keepEnds(s string, size int, between string) string {
	if len(s) <= size {
		return s
	}
	keep := size - len(between)
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

// ends returns the two ends of s, size bytes of it, with a note about the middle between them.
func ends(s string, size int) string {
	note := fmt.Sprintf("\n%s about %d bytes left out %s\n", ellipsis, len(s)-size, ellipsis)
	if size <= inlineAnswer {
		note = " " + ellipsis + " "
	}
	if len(s) <= size+len(note) {
		return s
	}
	return keepEnds(s, size+len(note), note)
}

// oneLine returns s in one line of at most size bytes.
func oneLine(s string, size int) string {
	return keepEnds(strings.Join(strings.Fields(s), " "), size, " "+ellipsis+" ")
}

var straightQuotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‟", `"`)

// quote returns s in one line between quotation marks, without such marks inside.
func quote(s string, size int) string {
	return "“" + oneLine(straightQuotes.Replace(s), size) + "”"
}

// block returns s with a ">" before each of its lines, in at most size bytes. It returns ""
// if size is too small.
func block(s string, size int) string {
	text := quotedLines(s)
	for room := size; len(text) > size && room > 0; room -= max(1, len(text)-size) {
		text = quotedLines(clip(s, room))
	}
	if len(text) > size {
		return ""
	}
	return text
}

// quotedLines puts ">" before each line of s.
func quotedLines(s string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		b.WriteString(strings.TrimRight("> "+l, " \t") + "\n")
	}
	return b.String()
}

// times returns a number of times in words.
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

// toolName returns a tool's name for use in a sentence. A name with unusual characters is
// quoted.
func toolName(s string) string {
	const size = 60
	s = oneLine(plain(s, 4*size), size)
	isOdd := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.:/-", r)
	}
	if strings.ContainsFunc(s, isOdd) {
		return quote(s, size)
	}
	return s
}
