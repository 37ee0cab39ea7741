package web

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// maxWords is the largest number of words in a line for which changedWords compares words.
const maxWords = 200

// changedWords returns the ranges of a line, in units of UTF-16, that another version of the line
// lacks. It returns none if the lines have little in common, because the whole line then counts
// as new.
func changedWords(line, other string) [][2]int {
	a, b := words(line), words(other)
	if len(a) > maxWords || len(b) > maxWords {
		return nil
	}
	kept := commonWords(a, b)
	if same := keptBytes(a, kept); 3*same < min(len(line), len(other)) {
		return nil
	}
	var ranges [][2]int
	at := 0
	for i, w := range a {
		end := at + utf16Length(w)
		isLast := len(ranges) > 0 && ranges[len(ranges)-1][1] == at
		switch {
		case kept[i]:
		case isLast:
			ranges[len(ranges)-1][1] = end
		default:
			ranges = append(ranges, [2]int{at, end})
		}
		at = end
	}
	return ranges
}

// words splits a line into words, runs of white space, and other characters.
func words(line string) (out []string) {
	class := func(r rune) int {
		switch {
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	for len(line) > 0 && len(out) <= maxWords {
		r, n := utf8.DecodeRuneInString(line)
		kind := class(r)
		for kind > 0 && n < len(line) {
			r, size := utf8.DecodeRuneInString(line[n:])
			if class(r) != kind {
				break
			}
			n += size
		}
		out, line = append(out, line[:n]), line[n:]
	}
	return out
}

// commonWords reports for each word of a whether it is in the longest common subsequence of a and b.
func commonWords(a, b []string) []bool {
	kept := make([]bool, len(a))
	prefix := 0
	for prefix < min(len(a), len(b)) && a[prefix] == b[prefix] {
		kept[prefix] = true
		prefix++
	}
	suffix := 0
	for suffix < min(len(a), len(b))-prefix && a[len(a)-1-suffix] == b[len(b)-1-suffix] {
		suffix++
		kept[len(a)-suffix] = true
	}
	x, y := a[prefix:len(a)-suffix], b[prefix:len(b)-suffix]
	width := len(y) + 1
	longest := make([]uint8, (len(x)+1)*width) // of x[i:] and y[j:]; at most maxWords
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i] == y[j]:
			kept[prefix+i] = true
			i, j = i+1, j+1
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return kept
}

// keptBytes returns the total length of the kept words, without white space.
func keptBytes(words []string, kept []bool) (n int) {
	for i, w := range words {
		if kept[i] && !slices.Contains([]string{" ", "\t"}, w[:1]) {
			n += len(w)
		}
	}
	return n
}

// utf16Length is the length of a text in units of UTF-16, in which JavaScript counts.
func utf16Length(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}
