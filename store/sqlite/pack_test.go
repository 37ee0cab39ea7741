package sqlite

import (
	"bytes"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// FuzzPackIndex reads hostile packs.
func FuzzPackIndex(f *testing.F) {
	f.Add([]byte("segnopk1"))
	f.Add(smallPack(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := readPackIndex(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, e := range x.entries {
			if e.at < 0 || e.length < 0 || e.size < 0 || e.at+e.length > int64(len(data)) {
				t.Fatalf("%+v is not inside %d bytes", e, len(data))
			}
		}
	})
}

// smallPack returns the bytes of a finished pack with three objects.
func smallPack(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	p, err := createPack(Options{}.withDefaults().FS, dir, newPackName(), time.Unix(1767225600, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		data := bytes.Repeat([]byte{byte(i)}, 100*i)
		if err := p.add(segno.HashOf(data), int64(len(data)), append([]byte{byte(record.Plain)}, data...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, p.path())
}
