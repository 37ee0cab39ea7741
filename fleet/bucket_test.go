package fleet

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
)

// A process with another bucket than the others, or with none, is refused before it writes anything.
func TestOneBucket(t *testing.T) {
	open := func(dir string) *postgres.DirBucket {
		b, err := postgres.OpenDirBucket(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	dir := t.TempDir()
	first := newRig(t) // without a bucket, before there is one
	c := first.config
	for _, x := range []struct {
		what, want string
		bucket     postgres.Bucket
	}{
		{"no bucket", "", nil},
		{"the first bucket", "", open(dir)},
		{"the same bucket", "", open(dir)},
		{"another bucket", "the fleet has another bucket", open(t.TempDir())},
		{"no bucket any more", "the fleet has a bucket, and this process has none", nil},
	} {
		c.Bucket = x.bucket
		f, err := Open(t.Context(), c)
		if err == nil {
			f.Close()
		}
		if x.want == "" && err != nil || x.want != "" && (segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), x.want) || segno.HintOf(err) == "") {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}
