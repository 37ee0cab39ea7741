package workspace_test

import (
	"errors"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestForeignDirectoryNeedsTrust registers a directory that root owns or, if root runs the
// test, one whose owner was changed.
func TestForeignDirectoryNeedsTrust(t *testing.T) {
	dir, uid := "/usr", uint32(0)
	if os.Geteuid() == 0 {
		dir, uid = t.TempDir(), 65534
		must(t, os.Chown(dir, 65534, 65534))
	}
	known := make(register)
	yes := false
	limits := workspace.Limits{Trusted: func(root string, owner uint32) bool {
		if root != dir || owner != uid {
			t.Errorf("asked about %s of %d, want %s of %d", root, owner, dir, uid)
		}
		return yes
	}}
	_, err := workspace.Register(ctx(t), known, dir, limits)
	var foreign *workspace.ForeignError
	if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" || !errors.As(err, &foreign) || foreign.Root != dir || foreign.UID != uid {
		t.Errorf("before the yes: %v, hint %q", err, segno.HintOf(err))
	}
	if _, err := workspace.Find(ctx(t), known, dir); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("it was registered all the same: %v", err)
	}
	yes = true
	_, err = workspace.Register(ctx(t), known, dir, limits)
	must(t, err)
}
