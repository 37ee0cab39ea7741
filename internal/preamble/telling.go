package preamble

import (
	"strings"

	"github.com/dalsegno/segno"
)

// Options says how to tell a story.
type Options struct {
	// Budget is how many tokens the text may have, at four bytes each; 0 is
	// [DefaultBudget].
	Budget int
	// Open is the turn that goes on, or is to begin, in the new session. Its
	// prompt is what the text precedes.
	Open *OpenTurn
}

// OpenTurn is a turn that has not ended.
type OpenTurn struct {
	// Turn is its number. What a [Builder] was already told of that turn is not told
	// twice. It is 0 if the story was told nothing of it.
	Turn   int
	Prompt string
	// Entries are the turn's so far: intents, results, messages, plans.
	Entries []segno.Entry
	// Words are what the agent had said that is in no entry yet.
	Reply string
	// Changed are the paths of the workspace that are not what they were when the
	// turn began: an agent may have died before it told what it did.
	Changed []string
}

// story is the turn as a story of its own.
func (o *OpenTurn) story() *Builder {
	s := new(Builder)
	s.begin(o.Turn)
	for _, e := range o.Entries {
		if e.Turn = o.Turn; e.Kind != segno.EntryMessage || e.Name != "user" {
			s.add(e)
		}
	}
	s.reply(o.Turn, o.Reply)
	return s
}

func (t Options) bytes() int {
	switch {
	case t.Budget == 0:
		return DefaultBudget * bytesPerToken
	case t.Budget < MinBudget:
		return MinBudget * bytesPerToken
	default:
		return t.Budget * bytesPerToken
	}
}

// Text is the preamble, or "" if there is nothing to tell. The prompt that it
// precedes is to follow as it is, last and without a label. The same story told
// the same way gives the same text, and telling does not change it.
func (s *Builder) Text(t Options) string {
	var now *Builder
	end, open := closing, 0
	if t.Open != nil {
		open = t.Open.Turn
		if now = t.Open.story(); now.began() || len(t.Open.Changed) > 0 {
			end = closingOpen
		}
	}
	if _, count := s.before(open); count == 0 && s.done.empty() && s.begun.empty() && s.refused.empty() && end == closing {
		return ""
	}
	p := newPages(t.bytes(), opening, leadOpen, end)
	if now != nil {
		p.now(now, t.Open.Changed, p.room/9)
	}
	p.past(s, now, open)
	return p.bind()
}

// began reports whether an open turn has anything to be told.
func (s *Builder) began() bool {
	return !s.done.empty() || !s.begun.empty() || !s.refused.empty() || s.turns.list[0].words != ""
}

// ContinuePrompt is the prompt with which an agent is asked to go on with a turn that a
// failure broke off, in a session that still knows the conversation. It has at most
// [DefaultBudget].
func ContinuePrompt(open OpenTurn) string {
	now := open.story()
	p := newPages(Options{}.bytes(), interruption, "", continuation)
	if said := plain(open.Prompt, keepWords); strings.TrimSpace(said) != "" {
		p.task = p.section(p.room/4, quoted, func(room int) string { return block(said, room) })
	}
	p.now(now, open.Changed, p.room/7)
	return p.bind()
}
