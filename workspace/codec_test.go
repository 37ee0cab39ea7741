package workspace

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// sampleTree has an entry of each kind.
func sampleTree() []record {
	h := segno.HashOf([]byte("x"))
	return []record{
		{name: "\xff\n", Entity: segno.Entity{Type: segno.EntitySymlink, Target: "../x"}},
		{name: "a", Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o4755, Hash: h, Size: 1 << 40, Xattrs: h}},
		{name: "a b", Entity: segno.Entity{Type: segno.EntityHardLink, Mode: 0o600, Hash: h, Target: "x/y"}},
		{name: "d", Entity: segno.Entity{Type: segno.EntityDir, Mode: 0o1777}, child: h},
		{name: "p", Entity: segno.Entity{Type: segno.EntityProtected, Why: "git"}},
	}
}

func sorted(records []record) []record {
	slices.SortFunc(records, func(a, b record) int { return strings.Compare(a.name, b.name) })
	return records
}

func TestATreeHasOneEncoding(t *testing.T) {
	data := encodeTree(sorted(sampleTree()))
	got, err := decodeTree(data)
	if err != nil {
		t.Fatal(err)
	}
	if again := encodeTree(got); !bytes.Equal(again, data) {
		t.Errorf("decoded and encoded again it is\n%q, was\n%q", again, data)
	}
	// The names of the empty tree and of this tree must never change.
	if got, want := segno.HashOf(encodeTree(nil)).String(), "33fe98300edddcad0cd3c9036c2a32e4a50c6883aeb8cf5f9321603ed89db6c4"; got != want {
		t.Errorf("the empty tree is %s, was %s", got, want)
	}
	if got, want := segno.HashOf(data).String(), "0829af7c3a9031fced3cf28b2bf9b3c6d341602780765ff04abe5df339eefcd8"; got != want {
		t.Errorf("the sample is %s, was %s", got, want)
	}
}

// ownedTree has one entry with an owner for each kind that can have one.
func ownedTree() []record {
	h := segno.HashOf([]byte("x"))
	owner := segno.Owner{Known: true, UID: 1000, GID: 1<<32 - 2}
	return []record{
		{name: "d", Entity: segno.Entity{Type: segno.EntityDir, Mode: 0o2755, Owner: owner}, child: h},
		{name: "f", Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o4755, Hash: h, Owner: segno.Owner{Known: true}}},
		{name: "h", Entity: segno.Entity{Type: segno.EntityHardLink, Mode: 0o6755, Hash: h, Target: "f", Owner: owner}},
		{name: "plain", Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: h}},
	}
}

func TestATreeWithOwnersIsVersionTwo(t *testing.T) {
	data := encodeTree(ownedTree())
	got, err := decodeTree(data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, ownedTree()) {
		t.Errorf("decoded %v", got)
	}
	// The encoding is on disk, so this name must never change.
	if got, want := segno.HashOf(data).String(), "457e31b74ea1eee3ce75c625fd51b325265e5b75cfa93e1b5e4eb7d45f6962cf"; got != want {
		t.Errorf("the sample is %s, was %s", got, want)
	}
	for what, data := range map[string][]byte{
		"without an owner":      []byte(ownedMagic),
		"with plain files only": append([]byte(ownedMagic), encodeTree(ownedTree()[3:])[len(treeMagic):]...),
		"cut short":             data[:len(data)-1],
	} {
		if got, err := decodeTree(data); err == nil {
			t.Errorf("%s: read as %v", what, got)
		}
	}
}

func TestADamagedTreeIsNotATree(t *testing.T) {
	one := func(change func(*record)) []byte {
		r := record{name: "n", Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf(nil)}}
		change(&r)
		return encodeTree([]record{r})
	}
	good := one(func(*record) {})
	if _, err := decodeTree(good); err != nil {
		t.Fatal(err)
	}
	two := sampleTree()[1:3]
	for what, data := range map[string][]byte{
		"empty":           nil,
		"another object":  []byte(timesMagic),
		"cut short":       good[:len(good)-1],
		"with more":       append(slices.Clone(good), 0),
		"an empty name":   one(func(r *record) { r.name = "" }),
		"a dot":           one(func(r *record) { r.name = "." }),
		"two dots":        one(func(r *record) { r.name = ".." }),
		"a slash":         one(func(r *record) { r.name = "a/b" }),
		"a NUL":           one(func(r *record) { r.name = "a\x00" }),
		"a wide mode":     one(func(r *record) { r.Mode = 0o10000 }),
		"no content":      one(func(r *record) { r.Hash = segno.Hash{} }),
		"no reason":       one(func(r *record) { r.Entity = segno.Entity{Type: segno.EntityProtected} }),
		"no target":       one(func(r *record) { r.Entity = segno.Entity{Type: segno.EntitySymlink} }),
		"a way out":       one(func(r *record) { r.Type, r.Target = segno.EntityHardLink, "../x" }),
		"an absolute way": one(func(r *record) { r.Type, r.Target = segno.EntityHardLink, "/x" }),
		"not in order":    encodeTree([]record{two[1], two[0]}),
		"twice":           encodeTree([]record{two[0], two[0]}),
		"a long number":   bytes.Replace(good, []byte("\x01n\xa4\x03"), []byte("\x01n\xa4\x83\x00"), 1),
	} {
		if bytes.Equal(data, good) {
			t.Errorf("%s: not damaged at all", what)
		}
		if got, err := decodeTree(data); err == nil {
			t.Errorf("%s: read as %v", what, got)
		}
	}
	if _, err := decodeTree([]byte("segno tree 3\n")); segno.KindOf(err) != segno.KindNewer {
		t.Errorf("a newer tree: %v", err)
	}
}

func FuzzTree(f *testing.F) {
	f.Add(encodeTree(nil))
	f.Add(encodeTree(sorted(sampleTree())))
	f.Add(encodeTree(ownedTree()))
	f.Fuzz(func(t *testing.T, data []byte) {
		if records, err := decodeTree(data); err == nil && !bytes.Equal(encodeTree(records), data) {
			t.Errorf("%q reads as %v, which is not written so", data, records)
		}
	})
}

func FuzzTimes(f *testing.F) {
	f.Add(encodeTimes([]timeRecord{{name: "a", mtime: -1}, {name: "d", child: segno.HashOf(nil)}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if records, err := decodeTimes(data); err == nil && !bytes.Equal(encodeTimes(records), data) {
			t.Errorf("%q reads as %v, which is not written so", data, records)
		}
	})
}

func FuzzXattrs(f *testing.F) {
	f.Add(encodeXattrs([]xattr{{"user.b", "1"}, {"user.a", ""}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if all, err := decodeXattrs(data); err == nil && !bytes.Equal(encodeXattrs(all), data) {
			t.Errorf("%q reads as %v, which is not written so", data, all)
		}
	})
}

func sampleIndex() *index {
	h := segno.HashOf([]byte("x"))
	st := stat{dev: 1, ino: 2, size: 3, mtime: 4, ctime: 5, mode: typeFile | 0o644, nlink: 1}
	far := st
	far.dev = 9
	owned := st
	owned.mode, owned.uid, owned.gid = typeFile|0o6755, 1000, 1<<32-2
	child := &node{path: "d", tree: h, ctime: 7, entries: []entry{{name: "l", st: st, kind: kindSymlink, note: "to"}}}
	return &index{root: stat{dev: 1, ino: 8}, rules: h, entries: 6, top: &node{tree: h, times: h, entries: []entry{
		{name: "f", st: st, kind: kindFile, hash: h, xattrs: &h},
		{name: "d", st: st, kind: kindDir, child: child},
		{name: "h", st: far, kind: kindHardLink, hash: h, note: "f"},
		{name: "p", st: st, kind: kindProtected, note: whyGit},
		{name: "s", st: owned, kind: kindFile, hash: h},
	}}}
}

func FuzzIndex(f *testing.F) {
	f.Add(sampleIndex().encode())
	f.Add((&index{top: &node{}}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, checked(data)} {
			if x, ok := decodeIndex(d); ok {
				if _, ok := decodeIndex(x.encode()); !ok {
					t.Errorf("%q reads as an index that cannot be written", d)
				}
			}
		}
	})
}

// checked adds a correct checksum to data, so that the fuzz test reaches the decoder.
func checked(data []byte) []byte {
	if len(data) < 4 {
		return data
	}
	x := slices.Clone(data)
	return appendChecksum(x[:len(x)-4])
}

func TestATornIndexIsNone(t *testing.T) {
	data := sampleIndex().encode()
	if x, ok := decodeIndex(data); !ok || !bytes.Equal(x.encode(), data) {
		t.Fatal("an index does not read back as it was written")
	}
	for n := range data {
		if _, ok := decodeIndex(data[:n]); ok {
			t.Errorf("the first %d bytes of an index are one", n)
		}
		other := slices.Clone(data)
		other[n] ^= 1
		if _, ok := decodeIndex(other); ok {
			t.Errorf("with byte %d changed it still is an index", n)
		}
	}
}

// FuzzGitIndex decodes arbitrary bytes as a git index.
func FuzzGitIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("s", 20)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("e", 62) + "\x00name\x00" + strings.Repeat("s", 20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if paths, _ := readGitIndex(data); len(paths) > len(data) {
			t.Errorf("%d names in %d bytes", len(paths), len(data))
		}
	})
}

// TestRacyTimes verifies when times can be relied on.
func TestRacyTimes(t *testing.T) {
	const now = int64(1e18)
	fresh, old := stat{dev: 1, ctime: now - 1e6}, stat{dev: 1, ctime: now - 1e9, mtime: now - 1e9}
	far, dir, oldDir := fresh, fresh, old
	far.dev, dir.mode, oldDir.mode = 2, typeDir, typeDir
	for _, c := range []struct {
		what  string
		clock clock
		st    stat
		want  bool
	}{
		{"fine times", clock{dev: 1, fine: true, start: now, tick: localTick}, fresh, false},
		{"fine times of a directory", clock{dev: 1, fine: true, start: now, tick: localTick}, dir, true},
		{"a directory long ago", clock{dev: 1, fine: true, start: now, tick: localTick}, oldDir, false},
		{"another device", clock{dev: 1, fine: true, start: now, tick: localTick}, far, true},
		{"ticks", clock{dev: 1, start: now, tick: localTick}, fresh, true},
		{"ticks long ago", clock{dev: 1, start: now, tick: localTick}, old, false},
		{"long ticks", clock{dev: 1, start: now, tick: unknownTick}, old, true},
		{"a clock ahead of ours", clock{dev: 1, start: now, tick: localTick}, stat{dev: 1, ctime: now + 1e12}, true},
		{"another device long ago", clock{dev: 1, fine: true, start: now, tick: localTick}, stat{dev: 2, ctime: now - 1e9}, true},
	} {
		if got := c.clock.racy(&c.st); got != c.want {
			t.Errorf("%s: racy %v", c.what, got)
		}
	}
	x := sampleIndex()
	x.top.entries[0].racy = true
	again, ok := decodeIndex(x.encode())
	if !ok || again.top.entries[0].st == x.top.entries[0].st {
		t.Error("the index vouches for a file that may have changed")
	}
}
