package claude

import (
	"strconv"
	"unicode/utf16"
)

// maxSlug is the length of the longest directory name that is not shortened.
const maxSlug = 200

// Slug returns the name of the directory in which Claude Code keeps the sessions of the
// working directory dir, a real path: every UTF-16 code unit that is not an ASCII letter
// or digit becomes "-". A name longer than 200 is cut there and followed by the checksum
// of the whole path that Java's String.hashCode computes. Several paths can have one slug.
func Slug(dir string) string {
	out := make([]byte, 0, len(dir))
	sum := int32(0)
	for _, unit := range utf16.Encode([]rune(dir)) {
		sum = sum*31 + int32(unit)
		switch {
		case unit >= 'a' && unit <= 'z', unit >= 'A' && unit <= 'Z', unit >= '0' && unit <= '9':
			out = append(out, byte(unit))
		default:
			out = append(out, '-')
		}
	}
	if len(out) <= maxSlug {
		return string(out)
	}
	return string(out[:maxSlug]) + "-" + strconv.FormatInt(max(int64(sum), -int64(sum)), 36)
}
