package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dalsegno/segno/agent"
)

// modelContext is a request as the model reads it.
type modelContext struct {
	system   string
	messages []agent.Message
	tools    tools
	prompt   string          // the last user message, or the rest of it in a summary
	resumed  bool            // the prompt comes from a summary
	since    []agent.Message // messages after the prompt
	done     int             // completed steps of the prompt
}

func newContext(r agent.Request) *modelContext {
	v := &modelContext{system: r.System, messages: r.Messages, tools: toolsOf(r.Tools)}
	last := lastUser(r.Messages)
	if last < 0 {
		return v
	}
	v.prompt, v.resumed = promptIn(r.Messages[last].Text())
	v.since = r.Messages[last+1:]
	for i := range v.since {
		if v.since[i].Role == agent.Assistant && len(v.since[i].Calls()) > 0 {
			v.done++
		}
	}
	return v
}

// promptIn returns the prompt in a user's message. A summary contains the rest of the prompt.
func promptIn(text string) (prompt string, resumed bool) {
	if i := strings.LastIndex("\n"+text+"\n", "\n"+leftHeader+"\n"); i >= 0 {
		return strings.TrimPrefix(text[i:], leftHeader), true
	}
	return text, false
}

// lines yields the lines of messages from users and the model, and of summaries. It does not yield results
// of tools, so that a file cannot plant a fact.
func (v *modelContext) lines(yield func(line string) bool) {
	lines := func(text string) bool {
		for line := range strings.Lines(text) {
			if !yield(strings.TrimSpace(line)) {
				return false
			}
		}
		return true
	}
	if !lines(v.system) {
		return
	}
	for i := range v.messages {
		if !lines(v.messages[i].Text()) {
			return
		}
	}
}

type fact struct{ what, is string }

// facts returns the facts to remember, the newest of each last.
func (v *modelContext) facts() (all []fact) {
	for line := range v.lines {
		for _, piece := range pieces(line) {
			c, ok := parse(piece)
			if !ok || c.name != "remember" {
				continue
			}
			all = slices.DeleteFunc(all, func(f fact) bool { return strings.EqualFold(f.what, c.args[0]) })
			all = append(all, fact{c.args[0], c.args[1]})
		}
	}
	return all
}

type callResult struct {
	agent.Call
	result *agent.Result // nil if there is none yet
}

// callsIn returns the calls in messages, in order. Providers' ids are unique only in a message,
// so a result belongs to the nearest call before it.
func callsIn(messages []agent.Message) (all []callResult) {
	for i := range messages {
		for _, p := range messages[i].Parts {
			switch {
			case p.Call != nil:
				all = append(all, callResult{Call: *p.Call})
			case p.Result != nil:
				for j := len(all) - 1; j >= 0; j-- {
					if all[j].ID == p.Result.Call {
						all[j].result = p.Result
						break
					}
				}
			}
		}
	}
	return all
}

var callNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:call_|` + callsHeader + ` )(\d{1,9})$`) })

// callID returns the id of the i-th call of the answer: the next number of the thread.
func (v *modelContext) callID(i int) string {
	calls := callsIn(v.messages)
	n := len(calls)
	for _, c := range calls {
		n = max(n, numberIn(c.ID))
	}
	for line := range v.lines {
		n = max(n, numberIn(line))
	}
	return "call_" + strconv.Itoa(n+1+i)
}

func numberIn(text string) int {
	if m := callNumber().FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // nine digits fit
		return n
	}
	return 0
}

// todoArgs are the arguments of write_todos.
type todoArgs struct {
	Todos []agent.Todo `json:"todos"`
	Merge bool         `json:"merge"`
}

var todoLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^- \[([ x~-])\] (\S+): (.+)$`) })

// todos returns the list in the context: the list of a summary, changed by each call that did
// not fail.
func (v *modelContext) todos() (list []agent.Todo) {
	for line := range v.lines {
		if m := todoLine().FindStringSubmatch(line); m != nil {
			list = mergeTodo(list, agent.Todo{ID: m[2], Text: m[3], Status: statusOf(m[1])})
		}
	}
	for _, c := range callsIn(v.messages) {
		var args todoArgs
		if c.Name != "write_todos" || c.result != nil && c.result.Error || json.Unmarshal(c.Args, &args) != nil {
			continue
		}
		if !args.Merge {
			list = nil
		}
		for _, t := range args.Todos {
			list = mergeTodo(list, t)
		}
	}
	return list
}

func mergeTodo(list []agent.Todo, t agent.Todo) []agent.Todo {
	if i := slices.IndexFunc(list, func(old agent.Todo) bool { return old.ID == t.ID }); i >= 0 {
		list[i] = t
		return list
	}
	return append(list, t)
}

// todosAfter returns the arguments of a call that changes the list as cmds say.
func (v *modelContext) todosAfter(cmds []command) json.RawMessage {
	list := v.todos()
	for _, c := range cmds {
		status, text := "pending", c.args[0]
		if c.name == "done" {
			status = "completed"
		}
		at := slices.IndexFunc(list, func(t agent.Todo) bool {
			return c.name == "done" && (t.ID == text || strings.EqualFold(t.Text, text))
		})
		if at >= 0 {
			list[at].Status = status
			continue
		}
		next := 1
		for _, t := range list {
			if n, err := strconv.Atoi(t.ID); err == nil {
				next = max(next, n+1)
			}
		}
		list = append(list, agent.Todo{ID: strconv.Itoa(next), Text: text, Status: status})
	}
	return encode(todoArgs{Todos: list, Merge: true})
}
