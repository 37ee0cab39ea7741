package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/dalsegno/segno"
)

var update = flag.Bool("update", false, "write testdata/hostile")

// A forgery is an archive under construction. Every header is kept as bytes, so that each
// can contradict the others.
type forgery struct {
	manifest Manifest
	headers  []header
	locals   [][]byte
	data     [][]byte
	centrals [][]byte
	end      []byte

	delta          *Delta
	changeMetadata func(*Metadata)
	// rewriteManifest and rewriteSums change the documents before they are packed.
	rewriteManifest, rewriteSums func([]byte) []byte
}

// forge starts with a sound archive of files, which must be in the order of their paths.
func forge(change func(m *Manifest), files ...[2]string) *forgery {
	f := &forgery{manifest: Manifest{Schema: Schema, Agents: []AgentInfo{{Name: "a"}}, Entries: []Entry{}}}
	for _, file := range files {
		sum := sha256.Sum256([]byte(file[1]))
		tier := Workspace
		if strings.Contains(file[0], "/session/") {
			tier = Session
		}
		f.manifest.Entries = append(f.manifest.Entries, Entry{Path: file[0], Tier: tier, Size: int64(len(file[1])), Mode: modeFile, SHA256: hex.EncodeToString(sum[:])})
	}
	if change != nil {
		change(&f.manifest)
	}
	f.pack(files)
	return f
}

func (f *forgery) pack(files [][2]string) {
	manifest, _ := segno.Encode(&f.manifest)
	if f.rewriteManifest != nil {
		manifest = f.rewriteManifest(manifest)
	}
	names, format := describeAgents(f.manifest.Agents)
	meta := Metadata{Schema: Schema, SessionFormat: format, Agents: names}
	if f.changeMetadata != nil {
		f.changeMetadata(&meta)
	}
	metadata, _ := segno.Encode(&meta)
	tops := []namedData{{metadataName, metadata}, {manifestName, manifest}}
	var delta [][2]string
	if f.delta != nil {
		data, _ := segno.Encode(f.delta)
		tops = append(tops, namedData{deltaName, data})
		delta = append(delta, [2]string{deltaName, string(data)})
	}
	sums := checksums(tops, f.manifest.Entries, f.delta)
	if f.rewriteSums != nil {
		sums = f.rewriteSums(sums)
	}
	f.headers, f.locals, f.data, f.centrals = nil, nil, nil, nil
	top := append([][2]string{{metadataName, string(metadata)}, {manifestName, string(manifest)}, {sumsName, string(sums)}}, delta...)
	for _, file := range append(top, files...) {
		f.add(header{name: file[0], crc: crc32.ChecksumIEEE([]byte(file[1])), compressed: int64(len(file[1])), size: int64(len(file[1]))}, []byte(file[1]))
	}
	f.seal()
}

// withDelta leaves to a base all of the only file except its tail.
func (f *forgery) withDelta(d *Delta, tail string) *forgery {
	f.delta = d
	var files [][2]string
	if tail != "" {
		files = append(files, [2]string{tailsName + f.manifest.Entries[0].Path, tail})
	}
	f.pack(files)
	return f
}

func (f *forgery) add(h header, data []byte) {
	for i := range f.headers {
		h.offset += int64(len(f.locals[i]) + len(f.data[i]))
	}
	f.headers = append(f.headers, h)
	f.locals = append(f.locals, h.appendLocal(nil))
	f.data = append(f.data, data)
	f.centrals = append(f.centrals, h.appendCentral(nil))
}

// recompress replaces the content of the last file.
func (f *forgery) recompress(method uint16, size int64, crc uint32, data []byte) *forgery {
	n := len(f.headers) - 1
	h := f.headers[n]
	f.headers, f.locals, f.data, f.centrals = f.headers[:n], f.locals[:n], f.data[:n], f.centrals[:n]
	h.method, h.size, h.crc, h.compressed, h.offset = method, size, crc, int64(len(data)), 0
	f.add(h, data)
	return f.seal()
}

func (f *forgery) seal() *forgery {
	at, n := 0, 0
	for i := range f.headers {
		at += len(f.locals[i]) + len(f.data[i])
		n += len(f.centrals[i])
	}
	f.end = endRecords(len(f.headers), int64(at), int64(n))
	return f
}

func (f *forgery) bytes() []byte {
	var b bytes.Buffer
	for i := range f.headers {
		b.Write(f.locals[i])
		b.Write(f.data[i])
	}
	for _, c := range f.centrals {
		b.Write(c)
	}
	b.Write(f.end)
	return b.Bytes()
}

func deflated(data []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 5)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func zstandard(data []byte, o ...zstd.EOption) []byte {
	e, _ := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, o...)...)
	return e.EncodeAll(data, nil)
}

const victim = "agents/a/workspace/file"

// forgeries returns the classes of ambiguity in zip files: headers that disagree, names that
// readers interpret differently, and end records of which readers choose different ones. It also returns
// the classic attacks on extraction. Each is refused.
func forgeries() map[string][]byte {
	le := binary.LittleEndian
	one := [2]string{victim, "content\n"}
	named := func(names ...string) []byte {
		var files [][2]string
		for _, n := range names {
			files = append(files, [2]string{n, "content\n"})
		}
		return forge(nil, files...).bytes()
	}
	tweak := func(change func(f *forgery)) []byte {
		f := forge(nil, one)
		change(f)
		return f.bytes()
	}
	linked := func(links ...Link) []byte {
		return forge(func(m *Manifest) { m.Links = links }, one).bytes()
	}
	crc := crc32.ChecksumIEEE([]byte(one[1]))
	zeros := make([]byte, 32<<20)
	all := map[string][]byte{
		// A: the two headers of a file disagree.
		"a1-method": tweak(func(f *forgery) { le.PutUint16(f.locals[3][8:], methodDeflate) }),
		"a2-size":   tweak(func(f *forgery) { le.PutUint32(f.locals[3][22:], 4) }),
		"a2-zip64-extra": tweak(func(f *forgery) {
			f.centrals[3] = append(f.centrals[3], 1, 0, 0, 0)
			le.PutUint16(f.centrals[3][30:], 4)
			f.seal()
		}),
		"a3-name":          tweak(func(f *forgery) { f.locals[3][len(f.locals[3])-1] = 'x' }),
		"a3-unicode-extra": tweak(unicodeExtra),
		"a4-directory":     named("agents/a/workspace/dir/"),
		"a4-mode":          tweak(func(f *forgery) { le.PutUint32(f.centrals[3][38:], 0o040755<<16) }),
		"a5-encrypted":     tweak(func(f *forgery) { le.PutUint16(f.locals[3][6:], utf8Flag|1) }),
		// B: names that can be read in two ways.
		"b1-twice":         named(victim, victim),
		"b2-nul":           named("agents/a/workspace/x\x00y"),
		"b2-backslash":     named(`agents/a/workspace/x\y`),
		"b2-escape":        named("agents/a/workspace/\x1b[2Jx"),
		"b2-bidi":          named("agents/a/workspace/\u202etxt.exe"),
		"b2-not-utf8":      named("agents/a/workspace/\xff"),
		"b3-dot":           named("agents/a/workspace/./x"),
		"b3-double-slash":  named("agents/a/workspace//x"),
		"b3-decomposed":    named("agents/a/workspace/u\u0308"),
		"b4-case":          named("agents/a/workspace/README", "agents/a/workspace/readme"),
		"b4-compatibility": named("agents/a/workspace/file", "agents/a/workspace/ﬁle"),
		// C: positions.
		"c1-prefix":     append([]byte("#!/bin/sh\nexit\n"), forge(nil, one).bytes()...),
		"c1-gap":        tweak(func(f *forgery) { f.data[3] = append(f.data[3], "PK\x03\x04 hidden"...); f.seal() }),
		"c2-overlap":    tweak(overlap),
		"c3-comment":    tweak(func(f *forgery) { le.PutUint16(f.end[20:], 5); f.end = append(f.end, "words"...) }),
		"c3-two-ends":   tweak(func(f *forgery) { f.end = append(f.end, f.end...) }),
		"c3-behind":     tweak(func(f *forgery) { f.end = append(f.end, 0) }),
		"c4-count":      tweak(func(f *forgery) { le.PutUint16(f.end[10:], 3); le.PutUint16(f.end[8:], 3) }),
		"c4-two-counts": tweak(func(f *forgery) { le.PutUint16(f.end[8:], 3) }),
		"c5-offset":     tweak(func(f *forgery) { le.PutUint32(f.end[16:], le.Uint32(f.end[16:])-1) }),
		"c5-zip64":      tweak(func(f *forgery) { le.PutUint32(f.end[16:], max32) }),
		"c5-disk":       tweak(func(f *forgery) { le.PutUint16(f.end[4:], 1) }),
		"descriptor": tweak(func(f *forgery) {
			le.PutUint16(f.locals[3][6:], utf8Flag|8)
			le.PutUint16(f.centrals[3][8:], utf8Flag|8)
		}),
		"symlink-entry":   tweak(func(f *forgery) { le.PutUint32(f.centrals[3][38:], 0o120777<<16) }),
		"setuid":          tweak(func(f *forgery) { le.PutUint32(f.centrals[3][38:], 0o104755<<16) }),
		"time":            tweak(func(f *forgery) { le.PutUint16(f.centrals[3][14:], 1) }),
		"method":          tweak(func(f *forgery) { le.PutUint16(f.centrals[3][10:], 12); le.PutUint16(f.locals[3][8:], 12) }),
		"traversal":       named("agents/a/workspace/../../../../etc/cron.d/x"),
		"traversal-agent": named("agents/../x/workspace/y"),
		"absolute":        named("/etc/cron.d/x"),
		"drive":           named("agents/a/workspace/C:x"),
		"device":          named("agents/a/workspace/nul.txt"),
		"short-name":      named("agents/a/workspace/GIT~1"),
		"trailing-dot":    named("agents/a/workspace/.git."),
		"elsewhere":       named("other/x"),
		"below-a-file":    named(victim, victim+"/x"),
		"link-out":        linked(Link{"agents/a/workspace/l", "../../x"}),
		"link-absolute":   linked(Link{"agents/a/workspace/l", "/etc"}),
		"link-by-link":    linked(Link{"agents/a/workspace/d/l", ".."}, Link{"agents/a/workspace/m", "d/l/../../x"}),
		"link-over-file":  linked(Link{victim, "x"}),
		"link-below-file": linked(Link{victim + "/x", "y"}),
		"link-to-session": linked(Link{"agents/a/workspace/l", "../session"}),
		"no-such-agent":   named("agents/b/workspace/x"),
		"order":           named("agents/a/workspace/b", "agents/a/workspace/a"),
		// Bombs and frames.
		"bomb-deflate":   forge(nil, one).recompress(methodDeflate, 8, crc, deflated(zeros)).bytes(),
		"bomb-zstd":      forge(nil, one).recompress(methodZstd, 8, crc, zstandard(zeros)).bytes(),
		"two-frames":     forge(nil, one).recompress(methodZstd, 8, crc, append(zstandard([]byte("cont")), zstandard([]byte("ent\n"))...)).bytes(),
		"skip-frame":     forge(nil, one).recompress(methodZstd, 8, crc, append(zstandard([]byte(one[1])), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0)).bytes(),
		"deflate-behind": forge(nil, one).recompress(methodDeflate, 8, crc, append(deflated([]byte(one[1])), 0)).bytes(),
		"deflate-cut":    forge(nil, one).recompress(methodDeflate, 8, crc, deflated([]byte(one[1]))[:5]).bytes(),
		"checksum":       forge(nil, one).recompress(methodStore, 8, crc+1, []byte(one[1])).bytes(),
		"content":        forge(nil, one).recompress(methodStore, 8, crc32.ChecksumIEEE([]byte("CONTENT\n")), []byte("CONTENT\n")).bytes(),
		"empty":          {},
		"text":           []byte("this is not an archive\n"),
		"deep-json":      rewritten(func(b []byte) []byte { return append(bytes.Repeat([]byte("["), 1<<16), b...) }, nil),
		"unknown-field":  rewritten(func(b []byte) []byte { return append([]byte(`{"a":1,`), b[1:]...) }, nil),
		"twice-in-json":  rewritten(func(b []byte) []byte { return append([]byte(`{"agents":[],`), b[1:]...) }, nil),
		"white-space":    rewritten(func(b []byte) []byte { return append(b, '\n') }, nil),
		"sums":           rewritten(nil, func(b []byte) []byte { return bytes.Replace(b, []byte("file"), []byte("feel"), 1) }),
	}
	all["metadata-agents"] = described(func(m *Metadata) { m.Agents = []string{"a", "b"} })
	all["metadata-format"] = described(func(m *Metadata) { m.SessionFormat = "codex-v1" })
	all["negative-size"] = forge(func(m *Manifest) { m.Entries[0].Size = -1 }, one).bytes()
	all["manifest-size"] = forge(func(m *Manifest) { m.Entries[0].Size = 9 }, one).bytes()
	all["newer-format"] = forge(func(m *Manifest) { m.Schema = "ckpt/2" }, one).bytes()
	return all
}

// unicodeExtra adds the field from which some readers take another name.
func unicodeExtra(f *forgery) {
	extra := append([]byte{0x75, 0x70, 10, 0, 1, 0, 0, 0, 0}, "other"...)
	f.centrals[3] = append(f.centrals[3], extra...)
	binary.LittleEndian.PutUint16(f.centrals[3][30:], uint16(len(extra)))
	f.seal()
}

// overlap makes two files share one local header.
func overlap(f *forgery) {
	second := f.headers[3]
	second.name = "agents/a/workspace/second"
	f.centrals = append(f.centrals, second.appendCentral(nil))
	f.headers = append(f.headers, second)
	f.locals, f.data = append(f.locals, nil), append(f.data, nil)
	f.seal()
}

// described returns an archive with changed metadata.
func described(change func(*Metadata)) []byte {
	one := [2]string{victim, "content\n"}
	f := forge(nil, one)
	f.changeMetadata = change
	f.pack([][2]string{one})
	return f.bytes()
}

func rewritten(manifest, sums func([]byte) []byte) []byte {
	one := [2]string{victim, "content\n"}
	f := forge(nil, one)
	f.rewriteManifest, f.rewriteSums = manifest, sums
	f.pack([][2]string{one})
	return f.bytes()
}

// damagedOnly are the forgeries that look like damage. The others contradict themselves.
var damagedOnly = strings.Fields(`b2-not-utf8 c3-behind c3-comment c5-zip64 checksum content deep-json deflate-cut
	empty newer-format sums text twice-in-json unknown-field white-space`)

// TestHostileArchives loads the files of testdata/hostile, which -update writes from
// forgeries. Each is refused before anything is written.
func TestHostileArchives(t *testing.T) {
	const corpus = "testdata/hostile"
	made := forgeries()
	if *update {
		if err := os.RemoveAll(corpus); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(corpus, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range made {
			if err := os.WriteFile(filepath.Join(corpus, name+".ckpt"), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range made {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Load(t.Context(), filepath.Join(corpus, name+".ckpt"), Into{Dir: filepath.Join(dir, "in"), TrustSession: true})
			want := segno.KindCorrupt
			if name == "newer-format" {
				want = segno.KindNewer
			}
			if !errors.Is(err, want) {
				t.Errorf("error %v", err)
			} else {
				t.Log(err)
			}
			if wasUnsafe := errors.As(err, new(*UnsafeError)); wasUnsafe == slices.Contains(damagedOnly, name) {
				t.Errorf("unsafe is %v: %v", wasUnsafe, err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
	// The same functions make a sound archive.
	sound := forge(func(m *Manifest) { m.Links = []Link{{"agents/a/workspace/l", "file"}} }, [2]string{victim, "content\n"}).bytes()
	if r, err := NewReader(bytes.NewReader(sound), int64(len(sound))); err != nil || r.Verify(t.Context(), nil) != nil {
		t.Errorf("a sound archive: %v", err)
	}
}

// TestHugeSizes checks that Load refuses an archive with more bytes than fit, before it writes any.
func TestHugeSizes(t *testing.T) {
	f := forge(func(m *Manifest) { m.Entries[0].Size = 1 << 50 }, [2]string{victim, "content\n"})
	data := f.recompress(methodDeflate, 1<<50, 0, deflated([]byte("content\n"))).bytes()
	name := filepath.Join(t.TempDir(), "a.ckpt")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "in")
	for _, most := range []int64{0, 1 << 60} {
		if _, err := Load(t.Context(), name, Into{Dir: to, MaxBytes: most}); !errors.Is(err, segno.KindRefused) {
			t.Errorf("limit %d: %v", most, err)
		}
	}
}

func TestCredentialsAreNeverExtracted(t *testing.T) {
	f := forge(nil, [2]string{"agents/a/session/auth.json", "{}"}, [2]string{"agents/a/workspace/.claude/settings.json", "{}"},
		[2]string{"agents/a/workspace/.env", "A=b"}, [2]string{"agents/a/workspace/CLAUDE.md", "do as I say"})
	name := filepath.Join(t.TempDir(), "a.ckpt")
	if err := os.WriteFile(name, f.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "in")
	loaded, err := Load(t.Context(), name, Into{Dir: to, TrustSession: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Skipped) != 3 || len(loaded.Manifest.Denied()) != 3 || len(loaded.Manifest.Instructions()) != 1 {
		t.Errorf("skipped %v", loaded.Skipped)
	}
	if got := tree(t, to); len(got) != 4 || got["agents/a/workspace/CLAUDE.md"] == "" {
		t.Errorf("loaded %v", got)
	}
}

// linkedArchive returns testdata/linked.ckpt, which internal/testing/e2e/archive opens with an agent. Its links point
// to files that would be settings with a hook.
func linkedArchive() []byte {
	h := newHostileTree()
	h.files["docs/settings.json"] = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch ran"}]}],` +
		`"UserPromptSubmit":[{"hooks":[{"type":"command","command":"touch ran"}]}]}}` + "\n"
	h.files["sub/x"] = "x\n"
	h.links[".claude"], h.links["first"], h.links["sub/.claude"] = "first", "docs", "../docs"
	return h.forged()
}

// TestLinkedArchive checks that testdata/linked.ckpt is up to date. That archive is accepted without its
// links to settings.
func TestLinkedArchive(t *testing.T) {
	name := filepath.Join("testdata", "linked.ckpt")
	if *update {
		if err := os.WriteFile(name, linkedArchive(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(name); err != nil || !bytes.Equal(data, linkedArchive()) {
		t.Errorf("%s is not the archive that this test makes: %v", name, err)
	}
	loaded, err := Load(t.Context(), name, Into{Dir: filepath.Join(t.TempDir(), "in")})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Skipped) != 2 || len(loaded.Manifest.Denied()) != 2 {
		t.Errorf("skipped %v", loaded.Skipped)
	}
}

// FuzzLoad checks two promises of a reader for any bytes: it does not panic, and an archive that
// it accepts loads as the state that the digest names.
func FuzzLoad(f *testing.F) {
	for _, data := range forgeries() {
		if len(data) < 4096 {
			f.Add(data)
		}
	}
	f.Add(forge(nil, [2]string{victim, "content\n"}).bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if err := r.Verify(t.Context(), nil); err != nil {
			return
		}
		dir := t.TempDir()
		if _, err := r.Load(t.Context(), Into{Dir: filepath.Join(dir, "in"), TrustSession: true, MaxBytes: 1 << 20}); err != nil && !errors.Is(err, segno.KindRefused) {
			t.Errorf("a verified archive does not load: %v", err)
		}
	})
}
