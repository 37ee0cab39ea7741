package tool_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno/agent"
)

type todo = map[string]any

func (r *rig) todos() (list []agent.Todo) {
	r.t.Helper()
	if _, err := r.state.Get("todos", &list); err != nil {
		r.t.Fatal(err)
	}
	return list
}

func TestTodosAreReplaced(t *testing.T) {
	r := inState(t)
	r.do("write_todos", "todos", []todo{{"id": "a", "text": "old", "status": "pending"}})
	r.wants("3 todos: 1 completed, 1 in_progress, 1 pending\n1. [completed] read\n2. [in_progress] write\nx. [pending] test",
		"write_todos", "todos", []todo{{"text": "read", "status": "completed"}, {"text": "write", "status": "in_progress"}, {"id": "x", "text": "test"}})
	want := []agent.Todo{{ID: "1", Text: "read", Status: "completed"}, {ID: "2", Text: "write", Status: "in_progress"}, {ID: "x", Text: "test", Status: "pending"}}
	if got := r.todos(); !reflect.DeepEqual(got, want) {
		t.Errorf("the state has %v, want %v", got, want)
	}
	if ev := r.last(); ev.Kind != agent.EventTodos || !reflect.DeepEqual(ev.Todos, want) {
		t.Errorf("the event is %+v", ev)
	}
	r.wants("no todos", "write_todos", "todos", []todo{})
}

func TestTodosAreMergedByIDOrText(t *testing.T) {
	r := inState(t)
	r.do("write_todos", "todos", []todo{{"id": "a/b", "text": "one"}, {"id": "a_b", "text": "two"}, {"id": "a:b", "text": "three"}})
	r.do("write_todos", "merge", true, "todos", []todo{
		{"id": "a_b", "status": "completed"},       // by id; keeps its text
		{"text": " three ", "status": "cancelled"}, // by text
		{"id": "a/b", "text": "uno"},               // a new text; keeps its status
		{"text": "four", "status": "in_progress"},  // a new one
		{"id": "日本:x", "text": "three"},            // another id is another todo
	})
	want := []agent.Todo{{ID: "a/b", Text: "uno", Status: "pending"}, {ID: "a_b", Text: "two", Status: "completed"}, {ID: "a:b", Text: "three", Status: "cancelled"},
		{ID: "1", Text: "four", Status: "in_progress"}, {ID: "日本:x", Text: "three", Status: "pending"}}
	if got := r.todos(); !reflect.DeepEqual(got, want) {
		t.Errorf("merged to %v, want %v", got, want)
	}
}

func TestTodosThatCannotBeMeantChangeNothing(t *testing.T) {
	r := inState(t)
	r.do("write_todos", "todos", []todo{{"id": "1", "text": "stay"}})
	before := r.todos()
	events := len(r.told())
	long := strings.Repeat("ü", 101)
	for _, c := range []struct {
		words []string
		todos []todo
	}{
		{[]string{"todo 2", "101 characters", "at most 100"}, []todo{{"text": "ok"}, {"text": long}}},
		{[]string{"todo 1", `"done"`, "in_progress, completed or cancelled"}, []todo{{"text": "x", "status": "done"}}},
		{[]string{"todo 1", "no text"}, []todo{{"status": "pending"}}},
		{[]string{"todo 1", `unknown id "7"`}, []todo{{"id": "7", "status": "pending"}}},
		{[]string{"todo 2", `"q"`, "twice"}, []todo{{"id": "q", "text": "x"}, {"id": "q", "text": "y"}}},
	} {
		r.fails(c.words, "write_todos", "merge", true, "todos", c.todos)
		r.fails(c.words, "write_todos", "merge", false, "todos", c.todos)
	}
	if got := r.todos(); !reflect.DeepEqual(got, before) || len(r.told()) != events {
		t.Errorf("a refused list left %v", got)
	}
	r.do("write_todos", "todos", []todo{{"text": strings.Repeat("ü", 100)}})
}

func TestMergesAtOnceLoseNoTodo(t *testing.T) {
	r := inState(t)
	const n = 64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r.do("write_todos", "merge", true, "todos", []todo{{"text": fmt.Sprint("todo ", i)}})
			r.do("write_todos", "merge", true, "todos", []todo{{"text": fmt.Sprint("todo ", i), "status": "completed"}})
		})
	}
	wg.Wait()
	ids := map[string]bool{}
	for _, td := range r.todos() {
		ids[td.ID] = true
		if td.Status != "completed" {
			t.Errorf("%v lost its status", td)
		}
	}
	if len(ids) != n || len(r.todos()) != n {
		t.Errorf("%d todos with %d ids, want %d", len(r.todos()), len(ids), n)
	}
	if ev := r.last(); !reflect.DeepEqual(ev.Todos, r.todos()) {
		t.Error("the last event does not tell the last list")
	}
}
