package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// What the API takes of a tool's name and of a call's id, in letters. Both are made of
// those that [plain] knows.
const (
	maxName = 64
	maxID   = 64
)

// nameOf is a tool's name as the API takes it. Models make up others, and a
// conversation that has one would be refused for ever.
func nameOf(name string) string { return fit(name, maxName) }

// idOf is a call's id as the API takes it: other models made up others.
func idOf(id string) string { return fit(id, maxID) }

func fit(text string, most int) string {
	if len(text) <= most && text != "" && strings.IndexFunc(text, unusual) < 0 {
		return text
	}
	return short(strings.Map(plain, text), text, most)
}

// short is the beginning of a text, and a mark of the whole of it: what was different
// stays different.
func short(text, whole string, most int) string {
	sum := sha256.Sum256([]byte(whole))
	mark := "_" + hex.EncodeToString(sum[:4])
	return text[:min(len(text), most-len(mark))] + mark
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

// ownNames are the tools' own names, by the names that the API is told where those
// are others.
func ownNames(tools []agent.ToolSpec) map[string]string {
	own := map[string]string{}
	for _, t := range tools {
		if sent := nameOf(t.Name); sent != t.Name {
			own[sent] = t.Name
		}
	}
	return own
}
