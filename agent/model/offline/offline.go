// Package offline is a model without a network: it follows plain commands.
//
// It reads the last user message of the context it is given, and nothing else: it
// has no memory between calls and draws nothing by lot, so the same context always
// gets the same answer. Each line is a command and a step, that is one answer with
// one call; commands joined by " ; " on a line are calls of the same step:
//
//	write F: text     append F: text     edit F: old -> new     read F
//	ls [D]            glob P             grep P [in D]          run CMD
//	todo X            done X             task NAME: prompt      call TOOL {json}
//	remember X is Y   recall X           say T                  think T
//	count             summarize
//
// In text, \n is a newline, \t a tab and \\ a backslash. The commands of the last
// two lines need no tool: they are answered in words, together with the next call or
// at the end. remember leaves its trace in the context alone, where recall finds the
// newest one, also in a summary. todo and done send the whole list, as the context
// tells it, merged into one call a line.
//
// When the last line is done, the model says in one text what came of each call. If
// there is a tool called final_answer, it calls that with an object that fits the
// tool's schema. It calls no tool that it was not offered, and does nothing at all
// for a prompt with a line that it does not understand: it says what it can do.
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

// answer is what the model has decided to say and to call.
type answer struct {
	thinking []string
	text     []string
	calls    []agent.Call
	cut      bool // the text ran into the limit
}

// limit cuts the text to a number of tokens; 0 is none.
func (a *answer) limit(tokens int) {
	if text := strings.Join(a.text, "\n"); tokens > 0 && len(a.calls) == 0 && len(text) > tokens*bytesPerToken {
		a.text, a.cut = []string{prefixOf(text, tokens*bytesPerToken)}, true
	}
}

// chunks are the pieces to stream: words, each with the space after it.
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

// tokens is a rough guess, and the same one each time.
func tokens(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // arguments that are not JSON; nobody is billed for a guess
	}
	return (len(text) + bytesPerToken - 1) / bytesPerToken
}
