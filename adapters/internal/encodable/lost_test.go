package encodable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/adapters/internal/encodable"
)

type node struct {
	Name  string
	Next  *node
	Any   any
	cache int
}

func TestLost(t *testing.T) {
	list, loop := []int{1}, &node{}
	loop.Next = loop
	for want, v := range map[string]any{
		"":                               []any{nil, 1, time.Now(), &node{Name: "a", Next: &node{}}, map[string]any{"a": []node{{}}}, (*node)(nil)},
		"cache of encodable_test.node":   node{Next: &node{Any: []node{{cache: 1}}}},
		"in the key a of a map[string]":  map[string]any{"a": node{cache: 1}},
		"*encodable_test.node that cont": loop,
		"func()":                         []any{func() {}},
		"chan int":                       make(chan int),
	} {
		if got := encodable.Lost(v, false); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q", want, got)
		}
	}
	for _, v := range []any{&list, [1]int{1}} {
		if encodable.Lost(v, false) != "" || encodable.Lost(v, true) == "" {
			t.Errorf("%T", v)
		}
	}
}
