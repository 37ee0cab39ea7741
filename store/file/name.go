package file

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dalsegno/segno"
)

const (
	longestName = 200 // file systems allow 255 bytes, and some names get a suffix
	longPrefix  = 100 // the length to which a longer name is cut
)

// reserved matches ids that Windows treats as a device.
var reserved = regexp.MustCompile(`^(con|prn|aux|nul|(com|lpt)[0-9])($|\.)`)

// nameOf returns the name of a thread's directory or a workspace's file, in the form that the
// package comment describes.
func nameOf[ID ~string](id ID) string {
	var b strings.Builder
	s := string(id)
	for i := range len(s) {
		c, edge := s[i], i == 0 || i == len(s)-1
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' && !edge
		if plain && (i > 0 || !reserved.MatchString(s)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) > longestName {
		name = name[:longPrefix] + "%~" + segno.HashOf([]byte(s)).String()[:32]
	}
	return name
}
