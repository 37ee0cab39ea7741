package sessionfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno/transcript"
)

const (
	// LostResult is the text of the result that a repair adds to a call without one.
	LostResult = "[The result of this call was lost. The tool may have run. Check its effects before you call it again.]"
	// LostCall begins the text that replaces a result without a call.
	LostCall = "[This is the result of a tool. The call of the tool was lost.]"
)

// maxName is the length of the longest id or name of a call that the APIs of models accept.
const maxName = 64

// nameCharacters are the characters of session ids, and those that the APIs of models accept in ids
// and names of calls.
const nameCharacters = "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Timestamp formats a time in the form that agents use in their records.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// CallIDs makes ids for the calls of a session. A model accepts these ids, and each is unique.
type CallIDs struct {
	Prefix string // prefix of new ids
	used   map[string]bool
}

// Use records the ids of the calls that are already in the session.
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

// New returns id if a model accepts it and no other call has it. Otherwise it derives another id
// from it.
func (c *CallIDs) New(id string) string {
	got := id
	if id == "" || len(id) > maxName || strings.Trim(id, nameCharacters) != "" {
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

// ToolName converts the name of a tool to the characters and the length that a model accepts.
func ToolName(name string) string {
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
	return b.String()[:min(b.Len(), maxName)]
}
