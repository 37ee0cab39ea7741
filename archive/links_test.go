package archive

import (
	"fmt"
	"slices"
	"testing"
)

// TestLinksThatAWorkspaceKeeps checks that only links are kept which stay inside the workspace,
// even through other links, and that a workspace full of links takes little time.
func TestLinksThatAWorkspaceKeeps(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	at := func(name, target string) Link { return Link{"agents/a/workspace/" + name, target} }
	cases := []struct {
		name string
		in   []Link
		kept []string
	}{
		{"inside", []Link{at("a", "b"), at("d/e", "../a")}, []string{"a", "d/e"}},
		{"out", []Link{at("a", ".."), at("b", "../../x"), at("c", "/etc")}, nil},
		{"at the root", []Link{at("d/a", "..")}, []string{"d/a"}},
		{"through another", []Link{at("d/up", ".."), at("out", "d/up/../x")}, []string{"d/up"}},
		{"a circle leads nowhere", []Link{at("a", "b"), at("b", "a")}, []string{"a", "b"}},
		{"through another, where case is ignored", []Link{at("Foo", "."), at("esc", "foo/x/../..")}, []string{"Foo"}},
		{"names that are not a path", []Link{at("a／b", "c/d/e"), at("out", "a/b/../../..")}, []string{"a／b"}},
		{"a link through an unsafe one", []Link{at("d", ".."), at("e", "d/f")}, nil},
	}
	for _, c := range cases {
		kept, unsafe := splitLinks(c.in)
		var names []string
		for _, l := range kept {
			names = append(names, l.Path[len("agents/a/workspace/"):])
		}
		if !slices.Equal(names, c.kept) || len(kept)+len(unsafe) != len(c.in) {
			t.Errorf("%s: kept %q of %v", c.name, names, c.in)
		}
		if err := checkLinks(kept); err != nil {
			t.Errorf("%s: what is kept is refused: %v", c.name, err)
		}
	}
	var many []Link
	for i := range 100_000 {
		many = append(many, at(fmt.Sprint("l", i), fmt.Sprint("l", i+1)))
	}
	if kept, _ := splitLinks(many); len(kept) != len(many) {
		t.Errorf("%d of %d links are kept", len(kept), len(many))
	}
}
