package transfercmd

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transfer/arrivals"
)

// TestWhatNeedsTrust checks which files a pull refuses without --trust, and those that look alike and are harmless.
func TestWhatNeedsTrust(t *testing.T) {
	file := segno.Entity{Type: segno.EntityFile, Mode: 0o644}
	link := func(target string) segno.Entity { return segno.Entity{Type: segno.EntitySymlink, Target: target} }
	hard := func(first string) segno.Entity {
		return segno.Entity{Type: segno.EntityHardLink, Mode: 0o644, Target: first}
	}
	for _, x := range []struct {
		name    string
		to      segno.Entity
		refused bool
	}{
		{".GIT/hooks/post-checkout", file, true},
		{"a/.G\u200dit/config", file, true},
		{".vscode/ta\u017fks.json", file, true},
		{".claude./settings.json", file, true},
		{".env", file, true},
		{"Makefile", file, false},
		{"package.json", file, false},
		{"run", segno.Entity{Type: segno.EntityFile, Mode: 0o755}, false},
		{".vscode", segno.Entity{Type: segno.EntityDir, Mode: 0o755}, false},
		{".vscode/tasks.json", segno.Entity{}, false},
		{"GIT~1/config", file, true},
		{"x/git~2", file, true},
		{"CLAUDE~1/SETTIN~1.JSO", file, true},
		{"ENVRC~1", file, true},
		{"VS4A2B~1/tasks.json", file, true},
		{"notes.~1~", file, false},
		{"a~1", file, false},
		{"digit~1", file, false},
		{"out", link("/etc"), true},
		{"out", link("../x"), true},
		{"a/out", link("b/../../x"), true},
		{"a/in", link("../x"), false},
		{".claude", link("docs"), true},
		// Writing into one name of a file changes the others.
		{"notes", hard(".claude/settings.json"), true},
		{"notes", hard("a"), false},
		// Whoever runs it has the rights of the user who pulls.
		{"tool", segno.Entity{Type: segno.EntityFile, Mode: 0o4755}, true},
		{"tool", segno.Entity{Type: segno.EntityFile, Mode: 0o2755}, true},
		{"shared", segno.Entity{Type: segno.EntityDir, Mode: 0o2775}, false},
	} {
		rule := arrivals.NewRule(nil, nil)
		if got := len(refused([]segno.Change{{Path: x.name, To: x.to}}, rule, rule)) > 0; got != x.refused {
			t.Errorf("%q %+v: refused is %v", x.name, x.to, got)
		}
		// A pull also deletes none of these files: the settings of an agent may forbid something. A file without the bits setuid and
		// setgid is in nobody's way.
		isLent := x.to.HasContent() && x.to.Mode&timeline.SetIDs != 0
		if got := len(refused([]segno.Change{{Path: x.name, From: x.to}}, rule, rule)) > 0; got != (x.refused && !isLent) {
			t.Errorf("delete %q %+v: refused is %v", x.name, x.to, got)
		}
	}
	p := &puller{trust: true}
	if err := p.checkTrust(t.Context(), []segno.Change{{Path: ".env", To: file}}, segno.Hash{}, segno.Hash{}); err != nil {
		t.Errorf("with --trust: %v", err)
	}
	if err := p.refuse([]string{"x"}); segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("the error does not name every reason: %v", err)
	}
}
