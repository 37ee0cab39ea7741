package sessionfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno/transcript"
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

// CallIDs gives ids to the calls of a session that a model accepts. No two calls get the same id.
type CallIDs struct {
	Prefix string // of ids that are made
	Most   int    // the length of the longest id
	used   map[string]bool
}

// Use notes the ids of calls that are in the session.
func (c *CallIDs) Use(before transcript.Conversation) {
	for _, m := range before.Messages {
		for _, p := range m.Parts {
			if p.Call != nil {
				c.use(p.Call.ID)
			}
		}
	}
}

func (c *CallIDs) use(id string) {
	if c.used == nil {
		c.used = map[string]bool{}
	}
	c.used[id] = true
}

// New returns id if a model accepts it and no other call has it, else one that is made of it.
func (c *CallIDs) New(id string) string {
	got := id
	if id == "" || len(id) > c.Most || strings.Trim(id, nameCharacters) != "" {
		got = c.made(id)
	}
	for n := 2; c.used[got]; n++ {
		got = c.made(fmt.Sprintf("%d %s", n, id))
	}
	c.use(got)
	return got
}

func (c *CallIDs) made(of string) string {
	sum := sha256.Sum256([]byte(of))
	return c.Prefix + hex.EncodeToString(sum[:12])
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
