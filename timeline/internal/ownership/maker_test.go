package ownership_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// TestMaker finds the call that made a change, by the calls of a turn: pairs of a tool and the subject of its input.
func TestMaker(t *testing.T) {
	for _, x := range []struct {
		calls []string
		path  string
		gone  bool
		want  string // the subject of the call
	}{
		{[]string{"Write", "/r/a.go", "Bash", "cat a.go", "Bash", "go test"}, "a.go", false, "/r/a.go"},
		{[]string{"Edit", "/r/a.go", "Edit", "/r/b.go", "Edit", "/r/a.go"}, "b.go", false, "/r/b.go"},
		{[]string{"Edit", "/r/a.md", "Bash", "ls docs", "Bash", "rm a.md"}, "a.md", true, "rm a.md"},
		{[]string{"Bash", "cat docs/a.md", "Bash", "rm -r docs", "Bash", "ls docs"}, "docs/a.md", true, "rm -r docs"},
		{[]string{"Bash", "ls", "Bash", "cd docs && rm a.md", "Bash", "make"}, "docs/a.md", true, "cd docs && rm a.md"},
		{[]string{"Bash", "cd x && rm a.md", "Bash", "cd docs && rm a.md"}, "docs/a.md", true, "cd docs && rm a.md"},
		{[]string{"Bash", "cd $x && rm a.md", "Bash", "cd $y && rm a.md"}, "docs/a.md", true, ""}, // either
		{[]string{"Write", "/r/b", "Bash", "./clean.sh"}, "docs/a.md", true, "./clean.sh"},
		{[]string{"Bash", "make", "Bash", "make clean"}, "docs/a.md", true, ""},
		{[]string{"Bash", "cat a.go", "Bash", "wc a.go"}, "a.go", false, ""},
		{[]string{"Bash", "mv old.md new.md", "Bash", "ls"}, "old.md", true, "mv old.md new.md"},
		{[]string{"Read", "/r/a.go"}, "a.go", false, ""},
		{nil, "a.go", false, ""},
	} {
		var entries []segno.Entry
		subjects := map[string]string{}
		for i := 0; i < len(x.calls); i += 2 {
			field := "file_path"
			if x.calls[i] == "Bash" {
				field = "command"
			}
			body, err := json.Marshal(map[string]string{field: x.calls[i+1]})
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprint("call-", i)
			subjects[id] = x.calls[i+1]
			entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: id, Name: x.calls[i], Body: body},
				segno.Entry{Kind: segno.EntryResult, ID: id, Name: x.calls[i], Body: json.RawMessage(`{"response":"ok"}`)})
		}
		e := ownership.Evidence{Calls: ownership.Calls(entries, ownership.Context{Dir: "/r"}), Root: "/r"}
		if got := subjects[e.Maker(x.path, x.gone)]; got != x.want {
			t.Errorf("%q, %s: made by %q, want %q", x.calls, x.path, got, x.want)
		}
	}
}
