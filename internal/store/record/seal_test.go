package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestXAES compares the cipher with the test vectors of its specification.
func TestXAES(t *testing.T) {
	for _, x := range []struct {
		key        byte
		data, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		c, err := newXAES(bytes.Repeat([]byte{x.key}, 32))
		if err != nil {
			t.Fatal(err)
		}
		nonce, plain := []byte("ABCDEFGHIJKLMNOPQRSTUVWX"), "XAES-256-GCM"
		sealed, err := c.seal(nil, nonce, []byte(plain), []byte(x.data))
		if err != nil || hex.EncodeToString(sealed) != x.want {
			t.Fatalf("key %d: %x, %v; want %s", x.key, sealed, err, x.want)
		}
		if got, err := c.open(nonce, sealed, []byte(x.data)); err != nil || string(got) != plain {
			t.Fatalf("key %d: opened as %q, %v", x.key, got, err)
		}
	}
}

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, keyLength) }

func testSealer(t testing.TB) *Sealer {
	t.Helper()
	z, mark, err := Unlock("", testKey(7), nil, true)
	if err != nil || len(mark) != markLength {
		t.Fatalf("%d bytes of a mark, %v", len(mark), err)
	}
	return z
}

// TestUnlock opens stores with the right key, with another key and without a key.
func TestUnlock(t *testing.T) {
	_, mark, err := Unlock("store", testKey(7), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := Unlock("store", testKey(7), mark, false); err != nil || !bytes.Equal(again, mark) {
		t.Fatalf("its own key: %v", err)
	}
	if z, none, err := Unlock("store", nil, nil, false); z != nil || none != nil || err != nil {
		t.Fatalf("a store without a key: %v %v %v", z, none, err)
	}
	newer := append([]byte{markVersion + 1}, mark[1:]...)
	for name, x := range map[string]struct {
		key, mark []byte
		want      segno.Kind
	}{
		"another key":                 {testKey(8), mark, segno.KindRefused},
		"no key":                      {nil, mark, segno.KindRefused},
		"a key for an unsealed one":   {testKey(7), nil, segno.KindRefused},
		"an empty key":                {[]byte{}, mark, segno.KindInvalid},
		"an empty key and no mark":    {[]byte{}, nil, segno.KindInvalid},
		"31 bytes":                    {testKey(7)[:31], mark, segno.KindInvalid},
		"33 bytes":                    {append(testKey(7), 7), mark, segno.KindInvalid},
		"a mark that is cut":          {testKey(7), mark[:20], segno.KindCorrupt},
		"a mark of a newer version":   {testKey(7), newer, segno.KindNewer},
		"a mark with another salt":    {testKey(7), flipped(mark, 5), segno.KindRefused},
		"a mark with another check":   {testKey(7), flipped(mark, markLength-1), segno.KindRefused},
		"a mark of no version":        {testKey(7), flipped(mark, 0), segno.KindCorrupt},
		"an empty mark that is there": {testKey(7), []byte{}, segno.KindCorrupt},
	} {
		z, _, err := Unlock("store", x.key, x.mark, false)
		if z != nil || segno.KindOf(err) != x.want {
			t.Errorf("%s: %v (%v), want %v", name, err, segno.KindOf(err), x.want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(fmt.Sprintf("%v %x %#v", err, err.Error(), err), hex.EncodeToString(testKey(7)))) {
			t.Errorf("%s: the error is %q", name, err)
		}
		if kind := segno.KindOf(err); segno.HintOf(err) == "" && (kind == segno.KindRefused || kind == segno.KindInvalid) {
			t.Errorf("%s: no hint", name)
		}
	}
}

func flipped(p []byte, at int) []byte {
	out := bytes.Clone(p)
	out[at] ^= 1
	return out
}

// TestSeal opens sealed values at their own place and at other places, and after each change of a
// byte.
func TestSeal(t *testing.T) {
	z := testSealer(t)
	for _, plain := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("a marker "), 100)} {
		sealed := z.Seal(plain, "entries", "thread", "commit")
		if got, err := z.Open(sealed, "entries", "thread", "commit"); err != nil || !bytes.Equal(got, plain) || got == nil {
			t.Fatalf("%q, %v", got, err)
		}
		if bytes.Contains(sealed, []byte("marker")) || len(sealed) != 1+xaesNonce+len(plain)+xaesTag {
			t.Fatalf("it is kept as %d bytes, %q", len(sealed), sealed)
		}
		if bytes.Equal(sealed, z.Seal(plain, "entries", "thread", "commit")) {
			t.Fatal("the same record is sealed alike")
		}
		for _, place := range [][]string{nil, {"entries"}, {"entries", "thread", "commi"}, {"entries", "threadc", "ommit"}, {"entries", "commit", "thread"},
			{"checkpoint", "thread", "commit"}, {"entries", "thread", "commit", ""}} {
			refuses(t, z, sealed, fmt.Sprint("at ", place), place...)
		}
		for at := range sealed {
			for bit := range 8 {
				changed := bytes.Clone(sealed)
				changed[at] ^= 1 << bit
				refuses(t, z, changed, fmt.Sprint("byte ", at), "entries", "thread", "commit")
			}
			refuses(t, z, sealed[:at], fmt.Sprint("cut at ", at), "entries", "thread", "commit")
		}
		refuses(t, z, append(bytes.Clone(sealed), 0), "one byte more", "entries", "thread", "commit")
		refuses(t, testSealer(t), sealed, "in another store with the same key", "entries", "thread", "commit")
		for _, q := range [][]byte{plain, NewSqueezer().Pack(plain)} {
			if _, err := z.Open(q, "entries", "thread", "commit"); !errors.Is(err, errPlain) {
				t.Fatalf("plain bytes: %v", err)
			}
		}
	}
}

func refuses(t *testing.T, z *Sealer, sealed []byte, what string, place ...string) {
	t.Helper()
	if got, err := z.Open(sealed, place...); got != nil || !errors.Is(err, errSealed) && !errors.Is(err, errPlain) {
		t.Fatalf("%s: %q, %v", what, got, err)
	}
}

// TestFirstVersion opens values that the first version sealed, and computes the hashes and terms that it
// stored.
func TestFirstVersion(t *testing.T) {
	bytesOf := func(digits string) []byte {
		p, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	mark := bytesOf("01f5f9754eaa3c83721f00de91ea2e357dd5cd73b89c1aa907e0df6b2e4708cb4c" +
		"e4039e1cb1d9862cc7d6205d5703cfd3")
	z, _, err := Unlock("", testKey(7), mark, false)
	if err != nil {
		t.Fatal(err)
	}
	sealed := bytesOf("03c45fca1fed54b194b9ba80750d5e4d3d06f7a28dbdd02913b074284220378a88749a4dc2c200495dd9f6a7a11393492a")
	if got, err := z.Open(sealed, "entries", "thread", "commit"); err != nil || string(got) != "a record" {
		t.Errorf("%q, %v", got, err)
	}
	for what, x := range map[string][2]string{
		"term": {fmt.Sprint(z.Term("session", "s")), "-8761798947675412410"},
		"name": {z.Name("session", "s"), "cefehqvazrvnudvuzc6e2ugvyvozaxw2"},
		"hash": {z.Hash("object", segno.HashOf(nil)).String(), "6ba3339f1daa51ba5a9b0c8c3cd465fdd6c2c06873a18d4c19053904fce62cf9"},
		"cuts": {fmt.Sprint(z.Cuts([]byte("x"), nil)), "1468453710"},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: %s instead of %s", what, x[0], x[1])
		}
	}
}

// TestNoSealer calls the methods of a nil Sealer, which return everything unchanged.
func TestNoSealer(t *testing.T) {
	var z *Sealer
	data := []byte("as it is")
	if got := z.Seal(data, "x"); &got[0] != &data[0] || len(got) != len(data) {
		t.Fatal("sealed")
	}
	if got, err := z.Open(data, "y"); err != nil || &got[0] != &data[0] {
		t.Fatal("opened", err)
	}
	h := segno.HashOf(data)
	if z.Hash("object", h) != h || z.Name("session", "s") != "s" || z.Cuts(data, func([]byte) uint32 { return 5 }) != 5 {
		t.Fatal("names changed")
	}
	const term = 6363411268471491823
	if got := z.Term("session", "s"); got != term {
		t.Fatalf("the term is %d; terms are on disk", got)
	}
	if n := testing.AllocsPerRun(100, func() {
		out, err := z.Open(z.Seal(data, "entries", "thread"), "entries", "thread")
		if err != nil || len(out) != len(data) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestKeyedNames compares the names and hashes of two stores with different keys.
func TestKeyedNames(t *testing.T) {
	a, b := testSealer(t), testSealer(t)
	h := segno.HashOf([]byte("a file that many have"))
	for what, f := range map[string]func(z *Sealer, kind, value string) string{
		"hash": func(z *Sealer, kind, value string) string { return z.Hash(kind, segno.HashOf([]byte(value))).String() },
		"name": func(z *Sealer, kind, value string) string { return z.Name(kind, value) },
		"term": func(z *Sealer, kind, value string) string { return fmt.Sprint(z.Term(kind, value)) },
	} {
		one := f(a, "session", "value")
		if one != f(a, "session", "value") {
			t.Errorf("%s: not the same twice", what)
		}
		for _, other := range []string{f(a, "session", "valuf"), f(a, "path", "value"), f(b, "session", "value"), f(nil, "session", "value")} {
			if one == other {
				t.Errorf("%s: %s is that of another, too", what, one)
			}
		}
	}
	if !a.Hash("object", segno.Hash{}).IsZero() || a.Name("path", "") != "" {
		t.Error("what names nothing has a name")
	}
	if a.Hash("object", h) == h {
		t.Error("the hash is there to be guessed")
	}
}

// FuzzOpen opens random bytes, which fails unless Seal has made them for the same place.
func FuzzOpen(f *testing.F) {
	z := testSealer(f)
	sealed := z.Seal([]byte("a record"), "entries", "commit")
	for _, x := range [][]byte{nil, {byte(Sealed)}, sealed[:1+xaesNonce], sealed[:len(sealed)-1], bytes.Repeat([]byte{byte(Sealed)}, 1+xaesNonce+xaesTag), {0, 3, 'a', 'b', 'c'}} {
		f.Add(x, []byte("entries"), "commit")
	}
	f.Fuzz(func(t *testing.T, data, kind []byte, id string) {
		if got, err := z.Open(data, string(kind), id); err == nil || got != nil {
			t.Fatalf("%q opened", data)
		}
		if _, _, err := Unlock("", testKey(7), data, false); err == nil && len(data) > 0 {
			t.Fatalf("the mark %q is that of the key", data)
		}
	})
}

// BenchmarkSeal seals one record.
func BenchmarkSeal(b *testing.B) {
	z := testSealer(b)
	for _, size := range []int{100, 1 << 10, 64 << 10} {
		plain := bytes.Repeat([]byte{'x'}, size)
		sealed := z.Seal(plain, "entries", "thread", "commit")
		b.Run(fmt.Sprint("seal/", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				z.Seal(plain, "entries", "thread", "commit")
			}
		})
		b.Run(fmt.Sprint("open/", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := z.Open(sealed, "entries", "thread", "commit"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
