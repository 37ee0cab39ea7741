package file

import (
	"encoding/hex"
	"strings"

	"github.com/dalsegno/segno"
)

const (
	longestName = 200 // file systems allow 255, and some names get an ending
	hashedPart  = 100 // what is kept of an id whose name would be longer
	hashedMark  = "%~"
	hashedHex   = 32
)

// nameOf returns what a thread's directory or a workspace's file is named.
func nameOf[ID ~string](id ID) string {
	var b strings.Builder
	s := string(id)
	reserved := isReserved(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && (i == 0 || i == len(s)-1), i == 0 && reserved, !standsForItself(c):
			const digits = "0123456789abcdef"
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	name := b.String()
	if len(name) > longestName {
		sum := segno.HashOf([]byte(s))
		name = name[:hashedPart] + hashedMark + hex.EncodeToString(sum[:])[:hashedHex]
	}
	return name
}

func standsForItself(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// isReserved reports whether Windows takes a name for a device, whatever follows
// its first dot. Names with capitals are escaped anyway.
func isReserved(s string) bool {
	stem, _, _ := strings.Cut(s, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && '0' <= stem[3] && stem[3] <= '9'
}

// idOf returns the thread id a directory name stands for, or false if it is none,
// or one that does not tell.
func idOf(name string) (segno.ThreadID, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+3 > len(name) {
			return "", false
		}
		c, err := hex.DecodeString(name[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	id := segno.ThreadID(b.String())
	return id, segno.CheckID("read name", string(id)) == nil && nameOf(id) == name
}
