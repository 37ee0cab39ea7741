// Package offline is a model without a network: it follows plain commands.
//
// Use it for tests, demonstrations and examples. It follows the last user message. It has no
// memory and no randomness, so the same request always gets the same answer. Each line is a
// command and a step, which is one answer with one call. Commands joined by " ; " on a line are
// calls of the same step:
//
//	write F: text     append F: text     edit F: old -> new     read F
//	ls [D]            glob P             grep P [in D]          run CMD
//	todo X            done X             task NAME: prompt      call TOOL {json}
//	remember X is Y   recall X           say T                  think T
//	count             summarize
//
// In text, \n is a newline, \t a tab and \\ a backslash. The commands of the last two lines need
// no tool: the model answers them with text, together with the next call or at the end. recall
// finds the newest remember in the conversation or in a summary. todo and done send the whole
// list in one call per line.
// After the last line the model describes the result of each call. If there is a tool called
// final_answer, it calls that with an object that matches the tool's schema. It calls only tools
// that are offered. If a prompt has an unknown command, it answers with a list of the commands and
// does nothing else.
package offline

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// New returns the model. It is called "offline/plain".
func New() agent.Model { return model{} }

const name = "offline/plain"

type model struct{}

func (model) Name() string { return name }

// Generate implements [agent.Model]. Its only error is the context's.
func (model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		a := answerTo(r)
		for _, c := range a.chunks() {
			if err := ctx.Err(); err != nil {
				yield(agent.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(agent.Chunk{}, err)
			return
		}
		yield(agent.Chunk{Reply: a.reply(r)}, nil)
	}
}

// answer is the text and the calls of an answer.
type answer struct {
	thinking []string
	text     []string
	calls    []agent.Call
	cut      bool // the text reached the limit
}

// limit cuts the text to a number of tokens; 0 is no limit.
func (a *answer) limit(tokens int) {
	if text := strings.Join(a.text, "\n"); tokens > 0 && len(a.calls) == 0 && len(text) > tokens*bytesPerToken {
		a.text, a.cut = []string{prefixOf(text, tokens*bytesPerToken)}, true
	}
}

// chunks returns the pieces to stream: words, each with the space after it.
func (a *answer) chunks() (all []agent.Chunk) {
	for _, word := range words(strings.Join(a.thinking, "\n")) {
		all = append(all, agent.Chunk{Thinking: word})
	}
	for _, word := range words(strings.Join(a.text, "\n")) {
		all = append(all, agent.Chunk{Text: word})
	}
	return all
}

func words(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(text, " ")
}

func (a *answer) reply(r agent.Request) *agent.Reply {
	m := agent.Message{Role: agent.Assistant, Model: name}
	if len(a.thinking) > 0 {
		m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: strings.Join(a.thinking, "\n")}})
	}
	if text := strings.Join(a.text, "\n"); text != "" {
		m.Parts = append(m.Parts, agent.Part{Text: text})
	}
	for i := range a.calls {
		m.Parts = append(m.Parts, agent.Part{Call: &a.calls[i]})
	}
	stop := agent.StopEnd
	switch {
	case len(a.calls) > 0:
		stop = agent.StopTools
	case a.cut:
		stop = agent.StopLength
	}
	return &agent.Reply{Message: m, Stop: stop, Usage: agent.Usage{
		Input:  len(r.System)/bytesPerToken + tokens(r.Messages) + tokens(r.Tools),
		Output: tokens(m.Parts),
	}}
}

const bytesPerToken = 4

// tokens estimates the number of tokens, deterministically.
func tokens(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // arguments that are not JSON; the estimate has no cost
	}
	return (len(text) + bytesPerToken - 1) / bytesPerToken
}
