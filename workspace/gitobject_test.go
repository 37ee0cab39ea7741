package workspace

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestALargeDelta checks that the delta of a file that is too large is no damaged object.
func TestALargeDelta(t *testing.T) {
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, 1), maxGitObject+1)
	if _, err := applyDelta([]byte("x"), delta); !errors.Is(err, errGitLarge) {
		t.Errorf("the error is %v", err)
	}
}

// TestATreeInItself reads a repository in which a tree contains itself. git does not make one, but the names of objects are
// not checked.
func TestATreeInItself(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, ".git", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	object := func(kind, id, content string) {
		t.Helper()
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		fmt.Fprintf(z, "%s %d\x00%s", kind, len(content), content)
		z.Close()
		write(filepath.Join("objects", id[:2], id[2:]), b.String())
	}
	tree, commit := strings.Repeat("a", 40), strings.Repeat("c", 40)
	object("tree", tree, "40000 "+strings.Repeat("x", 4000)+"\x00"+strings.Repeat("\xaa", 20))
	object("commit", commit, "tree "+tree+"\n\nx\n")
	write("HEAD", commit+"\n")
	r := OpenGit(root)
	if r == nil {
		t.Fatal("there is no repository")
	}
	defer r.Close()
	c, err := r.Commit("HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := r.Changes(t.Context(), c); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("%d changes, %v", len(changes), err)
	}
}
