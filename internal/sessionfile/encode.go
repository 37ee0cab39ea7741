package sessionfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// nameCharacters are those that the models' programming interfaces accept in ids and names of calls.
const nameCharacters = "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// EncodeLine returns v as one line of JSON without the newline. Characters of HTML stay as they are.
func EncodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// CallID returns the id of a call if a model accepts it, else one with a prefix that is made of it.
func CallID(prefix string, most int, id string) string {
	if id != "" && len(id) <= most && strings.Trim(id, nameCharacters) == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + hex.EncodeToString(sum[:12])
}

// ToolName returns the name of a tool if a model accepts it, else one that is like it.
func ToolName(name string, most int) string {
	var b strings.Builder
	for _, r := range name {
		if !strings.ContainsRune(nameCharacters, r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "unknown"
	}
	return b.String()[:min(b.Len(), most)]
}
