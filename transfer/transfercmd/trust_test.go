package transfercmd

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
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
		p := &puller{}
		err := p.checkTrust([]segno.Change{{Path: x.name, To: x.to}}, false)
		if (segno.KindOf(err) == segno.KindRefused) != x.refused || err != nil && !x.refused {
			t.Errorf("%q %+v: %v", x.name, x.to, err)
		}
		if err != nil && !strings.Contains(err.Error(), "credentials") {
			t.Errorf("the error does not name every reason: %v", err)
		}
		p.trust = true
		if err := p.checkTrust([]segno.Change{{Path: x.name, To: x.to}}, false); err != nil {
			t.Errorf("with --trust, %q: %v", x.name, err)
		}
	}
}
