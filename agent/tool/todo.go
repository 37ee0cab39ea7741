package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

const (
	todosKey    = "todos"
	maxTodoText = 100 // characters
)

// todoStates are in the order of the summary line.
var todoStates = [...]string{"completed", "in_progress", "pending", "cancelled"}

type todosArgs struct {
	Todos []todoArg `json:"todos" jsonschema:"the todos, in order"`
	Merge bool      `json:"merge,omitempty" jsonschema:"true changes the todos that are named by id (or by equal text) and adds the others; false replaces the whole list"`
}

type todoArg struct {
	ID     string `json:"id,omitempty" jsonschema:"which todo; one is given to a todo without"`
	Text   string `json:"text,omitempty" jsonschema:"what is to be done, in at most 100 characters; may be left out to keep that of a merged todo"`
	Status string `json:"status,omitempty" jsonschema:"pending, in_progress, completed or cancelled; pending for a new one if left out"`
}

// Todos returns the tool write_todos, for the list of [agent.Todo] in the state under the key
// "todos". Concurrent calls lose no todo.
func Todos() agent.Tool {
	var order sync.Mutex // the last event must have the last list
	return agent.NewTool("write_todos",
		"Keeps the list of todos. Use it for work of several steps: write the steps down first, "+
			"set one to in_progress before you begin it and to completed as soon as it is done. Returns the whole list.",
		agent.LostRerun, func(_ context.Context, inv *agent.Invocation, args todosArgs) (string, error) {
			order.Lock()
			defer order.Unlock()
			var list []agent.Todo
			err := inv.State.Update(todosKey, func(old json.RawMessage) (any, error) {
				var have []agent.Todo
				if args.Merge && old != nil {
					if err := json.Unmarshal(old, &have); err != nil {
						return nil, segno.NewError(segno.KindCorrupt, "read state", todosKey, err)
					}
				}
				var err error
				list, err = mergeTodos(have, args.Todos)
				return list, err
			})
			if err != nil {
				return "", err
			}
			emit(inv, agent.Event{Kind: agent.EventTodos, Todos: slices.Clone(list)})
			return listTodos(list), nil
		})
}

// mergeTodos updates have with args. A todo without an id updates one with the same text.
func mergeTodos(have []agent.Todo, args []todoArg) ([]agent.Todo, error) {
	list := append([]agent.Todo{}, have...)
	named := map[string]bool{}
	for i, a := range args {
		a.Text = strings.Join(strings.Fields(a.Text), " ")
		if err := a.check(i); err != nil {
			return nil, err
		}
		if a.ID != "" && named[a.ID] {
			return nil, fmt.Errorf("todo %d: id %q is given twice: give each todo a different id", i+1, a.ID)
		}
		named[a.ID] = true
		at := slices.IndexFunc(list, func(t agent.Todo) bool {
			if a.ID != "" {
				return t.ID == a.ID
			}
			return len(have) > 0 && t.Text == a.Text
		})
		if at < 0 {
			if a.Text == "" {
				return nil, fmt.Errorf("todo %d: unknown id %q, and no text for a new todo", i+1, a.ID)
			}
			list = append(list, agent.Todo{ID: a.ID, Text: a.Text, Status: "pending"})
			at = len(list) - 1
		}
		if a.Text != "" {
			list[at].Text = a.Text
		}
		if a.Status != "" {
			list[at].Status = a.Status
		}
	}
	assignIDs(list)
	return list, nil
}

func (a *todoArg) check(i int) error {
	if n := utf8.RuneCountInString(a.Text); n > maxTodoText {
		return fmt.Errorf("todo %d: its text has %d characters: use at most %d", i+1, n, maxTodoText)
	}
	if a.ID == "" && a.Text == "" {
		return fmt.Errorf("todo %d: it has no text", i+1)
	}
	if a.Status != "" && !slices.Contains(todoStates[:], a.Status) {
		return fmt.Errorf("todo %d: status %q: use pending, in_progress, completed or cancelled", i+1, a.Status)
	}
	return nil
}

// assignIDs gives todos without an id the smallest unused number.
func assignIDs(list []agent.Todo) {
	taken := map[string]bool{}
	for _, t := range list {
		taken[t.ID] = true
	}
	next := 1
	for i := range list {
		if list[i].ID != "" {
			continue
		}
		for taken[strconv.Itoa(next)] {
			next++
		}
		list[i].ID = strconv.Itoa(next)
		taken[list[i].ID] = true
	}
}

func listTodos(list []agent.Todo) string {
	if len(list) == 0 {
		return "no todos"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d todos:", len(list))
	sep := " "
	for _, state := range todoStates {
		n := 0
		for _, t := range list {
			if t.Status == state {
				n++
			}
		}
		if n > 0 {
			fmt.Fprintf(&b, "%s%d %s", sep, n, state)
			sep = ", "
		}
	}
	for _, t := range list {
		fmt.Fprintf(&b, "\n%s. [%s] %s", t.ID, t.Status, t.Text)
	}
	return b.String()
}
