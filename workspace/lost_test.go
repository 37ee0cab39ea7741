package workspace_test

import (
	"errors"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestALostTreeIsNotAMissingPath checks that the two differ: a path that a tree does not have is not found, and a tree that
// a checkpoint or another tree names and the store does not have is damage.
func TestALostTreeIsNotAMissingPath(t *testing.T) {
	p := newFixture(t)
	p.write("top", "1")
	p.write("sub/deep/f", "1")
	before := p.save()
	p.write("sub/deep/f", "2")
	after := p.save()
	ctx := t.Context()
	if e, err := workspace.Lookup(ctx, p.store, after.Tree, "sub/deep/f"); err != nil || e.Hash != segno.HashOf([]byte("2")) {
		t.Fatalf("%v, %v", e, err)
	}
	for _, absent := range []string{"none", "sub/none", "top/none", ""} {
		if _, err := workspace.Lookup(ctx, p.store, after.Tree, absent); segno.KindOf(err) != segno.KindNotFound {
			t.Errorf("look up %q: %v", absent, err)
		}
	}
	deleted := p.store.objects[after.Tree]
	delete(p.store.objects, after.Tree)
	isLost := func(what string, err error) {
		t.Helper()
		if segno.KindOf(err) != segno.KindCorrupt || segno.HintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
		if !errors.Is(err, segno.KindNotFound) {
			t.Errorf("%s: %v does not have its cause", what, err)
		}
	}
	_, err := workspace.Lookup(ctx, p.store, after.Tree, "top")
	isLost("look up in a lost tree", err)
	_, err = workspace.Diff(ctx, p.store, before.Tree, after.Tree)
	isLost("compare with a lost tree", err)

	p.store.objects[after.Tree] = deleted
	for name, data := range p.store.objects { // loses the directories sub and deep
		if name != after.Tree && name != before.Tree && len(data) > 10 {
			delete(p.store.objects, name)
		}
	}
	if _, err := workspace.Lookup(ctx, p.store, after.Tree, "top"); err != nil {
		t.Error(err)
	}
	_, err = workspace.Lookup(ctx, p.store, after.Tree, "sub/deep/f")
	isLost("look up below a lost directory", err)
}
