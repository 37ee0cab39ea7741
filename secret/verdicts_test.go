package secret

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/vfs"
)

func TestVerdicts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts")
	digest, content := sha256.Sum256([]byte("rules")), sha256.Sum256([]byte("content"))
	open := func(digest [32]byte) *Verdicts {
		t.Helper()
		v, err := OpenVerdicts(path, digest)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := open(digest)
	if v.Clean(content) {
		t.Error("a content that was never scanned is clean")
	}
	v.Remember(content)
	if err := v.Save(vfs.OS); err != nil {
		t.Fatal(err)
	}
	if !open(digest).Clean(content) {
		t.Error("the verdict is lost")
	}
	if open(sha256.Sum256([]byte("other rules"))).Clean(content) {
		t.Error("a verdict holds for other rules")
	}
	// A truncated file loses only its last verdict, and gains none.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if v := open(digest); v.Clean(content) || len(v.clean) > 0 {
			t.Fatalf("%d of %d bytes: %d verdicts", n, len(data), len(v.clean))
		}
	}
}
