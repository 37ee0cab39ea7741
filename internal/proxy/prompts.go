package proxy

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// prompts are what a replay shows of a user: what an agent says it still has.
type prompts struct {
	heard  []string // oldest first; the agent may have joined some
	within bool     // the last one goes on
	wanted map[string]int
}

// witnesses are the first and the last prompt of a session's turns that ended as they
// should: a session that has both has what is between them, as far as can be told from
// outside. Of prompts that are alike as many are wanted as there were.
func (s *session) witnesses(ctx context.Context, up segno.SessionID, last *segno.Checkpoint) (*prompts, error) {
	p := &prompts{wanted: map[string]int{}}
	if last == nil {
		return p, nil
	}
	counts := map[string]int{}
	var newest, oldest string
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: last.Thread, Session: up}) {
		if err != nil {
			return nil, err
		}
		if c.Kind != segno.CheckpointTurn || c.Interrupted {
			continue
		}
		words := beginning(c.Prompt)
		if words == "" {
			continue
		}
		oldest = words
		counts[oldest]++
		if newest == "" {
			newest = oldest
		}
	}
	for _, prompt := range []string{newest, oldest} {
		if prompt != "" {
			p.wanted[prompt] = counts[prompt]
		}
	}
	return p, nil
}

// hear takes an update of the replay.
func (p *prompts) hear(m acp.Message) {
	update := m.Find(m.Params, "update")
	if m.Text(m.Find(update, "sessionUpdate")) != "user_message_chunk" {
		p.within = false
		return
	}
	if !p.within {
		p.heard = append(p.heard, "")
	}
	p.within = true
	p.heard[len(p.heard)-1] += m.Text(m.Find(update, "content", "text")) + "\n"
}

// whole reports whether all that are wanted are there.
func (p *prompts) whole() bool {
	for prompt, n := range p.wanted {
		got := 0
		for _, h := range p.heard {
			got += strings.Count(normal(h), prompt)
		}
		if got < n {
			return false
		}
	}
	return true
}

// has reports whether a prompt is among those that were shown.
func (p *prompts) has(prompt string) bool {
	return slices.ContainsFunc(p.heard, func(h string) bool {
		return (&prompts{heard: []string{h}}).last(prompt)
	})
}

// last reports whether the newest prompt is this one.
func (p *prompts) last(prompt string) bool {
	return len(p.heard) > 0 && strings.Contains(normal(p.heard[len(p.heard)-1]), cmp.Or(beginning(prompt), normal(prompt)))
}

// beginning is as much of a prompt as tells it from others: agents may cut long ones, and
// show what was attached in ways of their own. It is "" if nothing else was sent.
func beginning(prompt string) string {
	const enough = 200
	longest, words := "", ""
	for line := range strings.Lines(prompt) {
		if words += line; isAttached(strings.TrimSpace(line)) {
			words = ""
		}
		if len(words) > len(longest) {
			longest = words
		}
	}
	r := []rune(normal(longest))
	return string(r[:min(len(r), enough)])
}

// isAttached reports whether a line of a prompt may stand for what was attached to it; see
// [promptText].
func isAttached(line string) bool {
	if kind, ok := strings.CutPrefix(line, "["); ok {
		kind, ok = strings.CutSuffix(kind, "]")
		return ok && kind != "" && !strings.ContainsAny(kind, " \t[]")
	}
	scheme, _, ok := strings.Cut(line, "://")
	return ok && scheme != "" && !strings.ContainsAny(line, " \t")
}

// normal is a text with its space written one way.
func normal(text string) string { return strings.Join(strings.Fields(text), " ") }
