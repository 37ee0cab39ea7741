package transcript

import (
	"strconv"
	"unicode/utf8"
)

// maxSlug is the length of the longest directory name that is not shortened.
const maxSlug = 200

// Slug is the name of the directory in which Claude Code keeps the sessions of
// the working directory dir, a real path: every UTF-16 code unit that is no ASCII
// letter or digit becomes "-". A name longer than 200 is cut there and gets a
// checksum of the whole path. Several paths can have one slug.
func Slug(dir string) string {
	out := make([]byte, 0, len(dir))
	sum := int32(0)
	unit := func(u uint16) {
		sum = sum*31 + int32(u)
		if u < utf8.RuneSelf && isAlphanumeric(byte(u)) {
			out = append(out, byte(u))
		} else {
			out = append(out, '-')
		}
	}
	for _, r := range dir { // a byte that is no UTF-8 counts as U+FFFD, one unit
		if r >= 0x10000 {
			r -= 0x10000
			unit(uint16(0xd800 + r>>10))
			unit(uint16(0xdc00 + r&0x3ff))
			continue
		}
		unit(uint16(r))
	}
	if len(out) <= maxSlug {
		return string(out)
	}
	abs := int64(sum)
	if abs < 0 {
		abs = -abs
	}
	return string(out[:maxSlug]) + "-" + strconv.FormatInt(abs, 36)
}

func isAlphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
