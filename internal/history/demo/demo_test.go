package demo

import (
	"os"
	"path/filepath"
	"testing"
)

// TestScratch asks for the scratch directories of directories that a demo made and of others. Whatever Scratch returns, the
// page removes.
func TestScratch(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	project, err := MakeProject()
	if err != nil {
		t.Fatal(err)
	}
	scratch, store := filepath.Dir(project), t.TempDir()
	if got := Scratch(project, store); got != scratch {
		t.Errorf("the scratch directory of %s is %q", project, got)
	}
	other := filepath.Join(t.TempDir(), "segno-demo-mine", "project")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string][2]string{
		"a directory of a user with the same name":   {other, store},
		"the store is in the scratch directory":      {project, filepath.Join(scratch, "store")},
		"the scratch directory is the store":         {project, scratch},
		"a directory in the project":                 {filepath.Join(project, "project"), store},
		"another directory in the scratch directory": {filepath.Join(scratch, "project-t2"), store},
		"the root": {"/", store},
	} {
		if got := Scratch(x[0], x[1]); got != "" {
			t.Errorf("%s: the scratch directory is %q", what, got)
		}
	}
	if err := os.Remove(filepath.Join(scratch, marker)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(project, filepath.Join(scratch, marker)); err != nil {
		t.Fatal(err)
	}
	if got := Scratch(project, store); got != "" {
		t.Errorf("with a link as its marker, the scratch directory is %q", got)
	}
}
