package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Name is a text in the letters that APIs take for names, at most so many: letters of
// ASCII, digits, "_" and "-". What is such stays; of two others none becomes the other.
func Name(text string, most int) string {
	if len(text) <= most && text != "" && strings.IndexFunc(text, unusual) < 0 {
		return text
	}
	return mark(strings.Map(plain, text), text, most)
}

// Short is a text of at most so many letters. What is shorter stays; of two others none
// becomes the other.
func Short(text string, most int) string {
	if len(text) <= most && text != "" {
		return text
	}
	return mark(strings.Map(plain, text), text, most)
}

// mark is the beginning of a text, and a mark of the whole of it.
func mark(text, whole string, most int) string {
	sum := sha256.Sum256([]byte(whole))
	end := "_" + hex.EncodeToString(sum[:4])
	return text[:min(len(text), most-len(end))] + end
}

func plain(r rune) rune {
	if unusual(r) {
		return '_'
	}
	return r
}

func unusual(r rune) bool {
	return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
