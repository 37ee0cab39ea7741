package sqlstore

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
)

// line returns the nodes a, b and c of a thread, oldest first.
func line() []Node {
	return []Node{
		{Node: segno.Node{ID: "a", Thread: "t", Seq: 1}, IsRoot: true},
		{Node: segno.Node{ID: "b", Thread: "t", Parent: "a", Seq: 2}, Depth: 1},
		{Node: segno.Node{ID: "c", Thread: "t", Parent: "b", Seq: 3}, Depth: 2},
	}
}

func TestArrange(t *testing.T) {
	r := &Records{CorruptHint: "a hint"}
	for name, tc := range map[string]struct {
		at     segno.CommitID
		last   int
		change func(n []Node) []Node
		ok     bool
	}{
		"in order":                   {at: "c", ok: true, change: func(n []Node) []Node { return n }},
		"in another order":           {at: "c", ok: true, change: func(n []Node) []Node { return []Node{n[2], n[0], n[1]} }},
		"a window":                   {at: "c", last: 2, ok: true, change: func(n []Node) []Node { return n[1:] }},
		"a window beyond the root":   {at: "c", last: 5, ok: true, change: func(n []Node) []Node { return n }},
		"without the root":           {at: "c", change: func(n []Node) []Node { return n[1:] }},
		"a window that is too short": {at: "c", last: 3, change: func(n []Node) []Node { return n[1:] }},
		"a gap":                      {at: "c", change: func(n []Node) []Node { return []Node{n[0], n[2]} }},
		"a depth twice":              {at: "c", change: func(n []Node) []Node { n[1].Depth = 2; return n }},
		"another end":                {at: "b", change: func(n []Node) []Node { return n }},
		"another parent":             {at: "c", change: func(n []Node) []Node { n[2].Parent = "a"; return n }},
		"a lower number":             {at: "c", change: func(n []Node) []Node { n[2].Seq = 1; return n }},
		"a root below the top":       {at: "c", change: func(n []Node) []Node { n[0].IsRoot = false; return n }},
		"a root with a parent":       {at: "c", change: func(n []Node) []Node { n[0].Parent = "x"; return n }},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := tc.change(line())
			err := r.Arrange(tc.at, tc.last, nodes)
			if !tc.ok {
				if segno.KindOf(err) != segno.KindCorrupt || segno.HintOf(err) != "a hint" {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || nodes[len(nodes)-1].ID != "c" {
				t.Errorf("%+v, %v", nodes, err)
			}
		})
	}
	nodes := line()
	nodes[1].Parent, nodes[2].Parent = "", ""
	if err := r.Arrange("c", 0, nodes); err != nil || nodes[1].Parent != "a" || nodes[2].Parent != "b" {
		t.Errorf("the parents were not set: %+v, %v", nodes, err)
	}
}

func TestText(t *testing.T) {
	for want, value := range map[Text]any{"": nil, "text": "text", "bytes\xff": []byte("bytes\xff"), "-7": int64(-7)} {
		got := Text("before")
		if err := got.Scan(value); err != nil || got != want {
			t.Errorf("%v is %q, %v", value, got, err)
		}
	}
	if err := new(Text).Scan(1.5); err == nil {
		t.Error("a float is not text")
	}
}

func TestCalls(t *testing.T) {
	var c Calls
	if err := c.Begin(t.Context(), "op"); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Begin(cancelled, "op"); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("with a cancelled context: %v", err)
	}
	if !c.Close(c.End) { // Close wakes the call, which then ends
		t.Error("the first Close is not the first")
	}
	if c.Close(func() {}) {
		t.Error("the second Close is the first")
	}
	if err := c.Begin(t.Context(), "op"); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("after Close: %v", err)
	}
}
