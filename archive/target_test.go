package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestNothingIsExtractedToAPlace extracts an archive with harmless names to directories in
// which its files would be settings, because of the directory's name or of a link on the way.
func TestNothingIsExtractedToAPlace(t *testing.T) {
	t.Parallel()
	h := newHostileTree()
	h.files["settings.json"], h.files["hooks/settings.json"] = "{}", "{}"
	base := t.TempDir()
	name := filepath.Join(base, "a.ckpt")
	if err := os.WriteFile(name, h.forged(), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(base, "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"one/.claude": "../shared", "two/.vscode": "../three", "three": "one/.claude", "up": "one/../one/.claude",
		"absolute/.zed": shared, "circle": "circle"} {
		at := filepath.Join(base, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)); err != nil {
			t.Fatal(err)
		}
	}
	var refused []string
	for _, place := range places {
		names := strings.Split(example(place), "/")
		for i := range names {
			refused = append(refused, "p/"+strings.Join(names[:i+1], "/"))
		}
		refused = append(refused, "p/"+example(place)+"/x")
	}
	refused = append(refused, "p/.CLAUDE", "one/.claude/hooks", "two/.vscode/extensions", "three/hooks", "up/hooks", "absolute/.zed/new", "p/.git/../.claude")
	for _, to := range refused {
		dir := filepath.Join(base, to)
		if strings.Contains(to, "..") {
			dir = base + "/" + to // as a user may type it
		}
		loaded, err := Load(t.Context(), name, Into{Dir: dir})
		if !errors.Is(err, segno.KindRefused) || segno.HintOf(err) == "" {
			t.Errorf("into %s: %v, %v", to, loaded, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "agents")); err == nil {
			t.Errorf("%s has files", to)
		}
	}
	for _, to := range []string{"p/docs", "p/claude", "shared/new", "p/.claude-x", "p/.github/workflows", "x.pem"} {
		if _, err := Load(t.Context(), name, Into{Dir: filepath.Join(base, to)}); err != nil {
			t.Errorf("into %s: %v", to, err)
		}
	}
}
