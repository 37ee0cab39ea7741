package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestPathChanges describes the changes between two trees.
func TestPathChanges(t *testing.T) {
	dir, protected := segno.Entity{Type: segno.EntityDir}, segno.Entity{Type: segno.EntityProtected}
	none := segno.Entity{}
	type side struct {
		path     string
		from, to segno.Entity
	}
	for name, x := range map[string]struct {
		changes []side
		want    string
	}{
		"each action": {[]side{{"a", none, file("1")}, {"b", file("2"), file("3")}, {"c", file("4"), none}}, "created a, changed b, deleted c"},
		"a directory with its content": {[]side{{"docs", dir, none}, {"docs-old", file("x"), none}, {"docs/a", file("1"), none}},
			"deleted docs-old, deleted docs/a"},
		"an empty directory":              {[]side{{"docs", none, dir}}, "created docs"},
		"a new name":                      {[]side{{"new/a", none, file("1")}, {"old/a", file("1"), none}}, "renamed old/a to new/a"},
		"a new name and a new content":    {[]side{{"new/a", none, file("2")}, {"old/a", file("1"), none}}, "created new/a, deleted old/a"},
		"the same base name comes first":  {[]side{{"b", file("1"), none}, {"n/a", none, file("1")}, {"o/a", file("1"), none}}, "deleted b, renamed o/a to n/a"},
		"one file became two":             {[]side{{"a", none, file("1")}, {"b", none, file("1")}, {"c", file("1"), none}}, "renamed c to a, created b"},
		"empty files have no new name":    {[]side{{"a", none, file("")}, {"b", file(""), none}}, "created a, deleted b"},
		"a file became protected":         {[]side{{".env", file("1"), protected}, {"b", protected, file("2")}}, ""},
		"a protected file disappeared":    {[]side{{".env", protected, none}}, "deleted .env"},
		"a directory replaced a file":     {[]side{{"a", file("1"), dir}, {"a/b", none, file("2")}}, "changed a, created a/b"},
		"a path with bytes below a slash": {[]side{{"d", none, dir}, {"d\x01", none, file("1")}, {"d/x", none, file("2")}}, "created d\x01, created d/x"},
	} {
		var diff []segno.Change
		for _, c := range x.changes {
			diff = append(diff, segno.Change{Path: c.path, From: c.from, To: c.to})
		}
		var got []string
		for _, p := range PathChanges(diff) {
			switch p.Action {
			case Renamed:
				got = append(got, fmt.Sprintf("renamed %s to %s", p.From, p.Path))
			default:
				got = append(got, string(p.Action)+" "+p.Path)
			}
		}
		if text := strings.Join(got, ", "); text != x.want {
			t.Errorf("%s: %s, want %s", name, text, x.want)
		}
	}
}

// TestPathChangeIsAt checks which paths select a change.
func TestPathChangeIsAt(t *testing.T) {
	x := PathChange{Path: "new/deep/a", From: "old/a", Action: Renamed}
	for _, at := range []string{"", "new", "new/deep", "new/deep/a", "old", "old/a"} {
		if !x.IsAt(at) {
			t.Errorf("%q does not select %+v", at, x)
		}
	}
	if other := slices.IndexFunc([]string{"ne", "new/deep/a/b", "deep", "a"}, x.IsAt); other >= 0 {
		t.Errorf("path %d selects %+v", other, x)
	}
}
