package workspace_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestLookupFileSaysWhyThereIsNone checks the kind and the text of each error that a reader of one file gets.
func TestLookupFileSaysWhyThereIsNone(t *testing.T) {
	p := newFixture(t)
	p.write("sub/f", "1")
	p.write("package.json", "{}")
	p.write("node_modules/lib/index.js", "1")
	p.write(".segnoignore", "*.log\n")
	p.write("a.log", "1")
	tree := p.save().Tree
	if e, err := workspace.LookupFile(t.Context(), p.store, tree, "sub/f"); err != nil || e.Hash != segno.HashOf([]byte("1")) {
		t.Errorf("%v, %v", e, err)
	}
	for path, want := range map[string]struct {
		kind segno.Kind
		text string
	}{
		"sub":                       {segno.KindInvalid, "it is a directory"},
		"sub/none":                  {segno.KindNotFound, "does not exist"},
		"a.log":                     {segno.KindNotFound, "it is protected, so its content was not stored: "},
		"node_modules":              {segno.KindNotFound, "it is protected, so its content was not stored: "},
		"node_modules/lib/index.js": {segno.KindNotFound, "it is below node_modules, which is protected"},
	} {
		_, err := workspace.LookupFile(t.Context(), p.store, tree, path)
		if segno.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v, want %q", path, err, want.text)
		}
	}
	if _, err := workspace.Lookup(t.Context(), p.store, tree, "node_modules/lib"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a path below a protected directory: %v", err)
	}
}
