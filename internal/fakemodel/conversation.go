package fakemodel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// position is where in its script a model call stands.
type position struct {
	directive *directive
	calls     int    // assistant messages after the directive
	seed      string // of the ids in the answer
}

// locate finds the newest directive in a conversation.
func locate(conversation []Message) (position, error) {
	var p position
	for i := len(conversation) - 1; i >= 0 && p.directive == nil; i-- {
		m := conversation[i]
		if m.Role == "assistant" {
			p.calls++
			continue
		}
		if m.Role != "user" {
			continue
		}
		d, err := findDirective(m.Text())
		if err != nil {
			return p, err
		}
		p.directive = d
	}
	p.seed = seed(conversation)
	return p, nil
}

// seed names the place in a conversation by what its user said and how many
// answers there are. Reminders that an agent adds, and what tools returned, are
// left out: they hold paths and dates, and a replay elsewhere would differ.
func seed(conversation []Message) string {
	h := sha256.New()
	answers := 0
	for _, m := range conversation {
		if m.Role == "assistant" {
			answers++
			continue
		}
		for _, b := range m.Blocks {
			if b.Type == "text" && !strings.HasPrefix(b.Text, "<system-reminder>") {
				fmt.Fprintf(h, "%d %d %s\n", answers, len(b.Text), b.Text)
			}
		}
	}
	fmt.Fprintf(h, "%d", answers)
	return hex.EncodeToString(h.Sum(nil))[:24]
}
