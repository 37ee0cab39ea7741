package file

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// mark begins an escape in a string that JSON cannot represent. It is not a character.
const mark = "\ufdd0"

// escape converts any string to valid UTF-8, reversibly.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, mark) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "%s%02x", mark, s[i])
		case s[i:i+size] == mark:
			b.WriteString(mark + mark)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var escaped = regexp.MustCompile(mark + "(" + mark + "|[0-9a-f]{2})")

// unescape returns the string from which escape made s.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(found string) string {
		if found == mark+mark {
			return mark
		}
		b, _ := hex.DecodeString(found[len(mark):]) // the pattern guarantees two digits
		return string(b)
	})
}
