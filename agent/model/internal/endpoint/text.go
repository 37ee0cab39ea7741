package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// ToolName returns a tool's name in the letters and the length that APIs accept. A model may
// invent a name that APIs do not accept. An API would then refuse every further request of
// the conversation.
func ToolName(name string) string { return Identifier(name, 64) }

// Identifier returns a text in at most limit letters of ASCII, digits, "_" and "-". A text
// that fits is returned unchanged, and two different texts give two different identifiers.
func Identifier(text string, limit int) string {
	if text != "" && strings.IndexFunc(text, isSpecial) < 0 {
		return Shorten(text, limit)
	}
	return withHash(text, limit)
}

// Shorten returns a text of at most limit bytes. A text that fits is returned unchanged, and
// two different texts give two different results.
func Shorten(text string, limit int) string {
	if len(text) <= limit && text != "" {
		return text
	}
	return withHash(text, limit)
}

// withHash returns the beginning of a text and a hash of all of it.
func withHash(text string, limit int) string {
	sum := sha256.Sum256([]byte(text))
	end := "_" + hex.EncodeToString(sum[:4])
	plain := strings.Map(func(r rune) rune {
		if isSpecial(r) {
			return '_'
		}
		return r
	}, text)
	return plain[:min(len(plain), limit-len(end))] + end
}

func isSpecial(r rune) bool {
	return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Arguments returns a call's arguments as a JSON object. APIs refuse a conversation that
// contains any other value, even in an old call. Invalid arguments become the value of
// "invalid_json", so that the model sees its own text.
func Arguments(args json.RawMessage) json.RawMessage {
	text := strings.TrimSpace(string(args))
	switch {
	case text == "" || text == "null":
		return json.RawMessage("{}")
	case strings.HasPrefix(text, "{") && json.Valid(args):
		return json.RawMessage(text)
	}
	_ = json.Unmarshal(args, &text) // the log stores invalid JSON as a string
	object, err := segno.Encode(map[string]string{"invalid_json": text})
	if err != nil {
		return json.RawMessage("{}")
	}
	return object
}

// Describe returns a text that replaces an image or a file that the API does not accept.
func Describe(kind string, b *agent.Blob) string {
	about := slices.DeleteFunc([]string{b.Name, b.Type, b.URL}, func(s string) bool { return s == "" })
	if len(b.Data) > 0 {
		about = append(about, fmt.Sprintf("%d bytes", len(b.Data)))
	}
	return fmt.Sprintf("[%s that cannot be shown: %s]", kind, strings.Join(about, ", "))
}
