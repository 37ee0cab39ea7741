package fakemodel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// position is the position of a model call in its script.
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

// seed identifies a position in a conversation by the user's texts and the number of answers.
// It ignores the agent's own texts and the tools' results, because they contain paths and dates
// and would make a replay differ on another machine.
func seed(conversation []Message) string {
	h := sha256.New()
	answers := 0
	for _, m := range conversation {
		if m.Role == "assistant" {
			answers++
		}
		if m.Role != "user" {
			continue
		}
		for _, b := range m.Blocks {
			if b.Type == "text" && !added(b.Text) {
				fmt.Fprintf(h, "%d %d %s\n", answers, len(b.Text), b.Text)
			}
		}
	}
	fmt.Fprintf(h, "%d", answers)
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// added reports whether the agent, and not the user, wrote a user text.
func added(text string) bool {
	return strings.HasPrefix(text, "<system-reminder>") || strings.HasPrefix(text, "<environment_context>") ||
		strings.HasPrefix(text, "<session_context>")
}

// compactionStart is the beginning of Claude Code's request for a summary.
const compactionStart = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."

// compactionOf returns the request for a summary at the end of a conversation, or "". The
// request contains the user's instructions for it.
func compactionOf(conversation []Message) string {
	if len(conversation) == 0 {
		return ""
	}
	last := conversation[len(conversation)-1]
	if last.Role != "user" || len(last.Blocks) == 0 {
		return ""
	}
	text := last.Blocks[len(last.Blocks)-1].Text
	if !strings.HasPrefix(text, compactionStart) {
		return ""
	}
	return text
}

// titleStarts has the beginnings of the requests for a title by Codex's adapter and its
// terminal program. These requests quote the prompt with its script.
func titleStarts() []string {
	return []string{"Your task is to generate a very short title for a conversation", "Generate a concise, single-line task title"}
}

func isTitleRequest(conversation []Message) bool {
	if len(conversation) == 0 {
		return false
	}
	last := conversation[len(conversation)-1]
	return last.Role == "user" && slices.ContainsFunc(titleStarts(), func(start string) bool { return strings.HasPrefix(last.Text(), start) })
}
