package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// Delta is delta.json: it lists the contents that an archive leaves to another one, its base. It
// describes only the transport of contents. It is not part of the state, so a delta has the same
// manifest, digest and signature as the full archive.
type Delta struct {
	Base string `json:"base"` // the state digest of the archive that has the rest
	// Name is the writer's name for that archive, such as its checkpoint. Messages contain it.
	Name  string   `json:"name,omitempty"`
	Files []Prefix `json:"files"`
}

// A Prefix is a file of the manifest that begins with the whole content of one of the base.
type Prefix struct {
	Path   string `json:"path"`   // in the manifest
	Size   int64  `json:"size"`   // of the base's file
	SHA256 string `json:"sha256"` // of the base's file
	// Tail is the hash of the rest of the file, which the archive stores as tails/PATH. It is empty
	// if the two files are equal.
	Tail string `json:"tail,omitempty"`
}

// A Base is an archive that the reader of a delta must have. See [WriteOptions].
type Base struct {
	Manifest *Manifest
	Name     string // for messages, see [Delta]
}

const (
	deltaName = "delta.json"
	tailsName = "tails/"
	// maxChain bounds the length of a chain of deltas, because each one costs another reading of
	// the contents that it leaves to its base.
	maxChain    = 64
	maxBaseName = 256
)

// A contentKey names a content within the tier of an agent. A delta refers only to contents of
// the same tier of the same agent.
type contentKey struct {
	place string
	size  int64
	sum   string
}

// place returns the agent and the tier that a path belongs to, as "AGENT/TIER".
func place(name string) string {
	agent, tier, _, _ := splitPath(name)
	return agent + "/" + string(tier)
}

// contents returns the index of the entry that has each content of m. It leaves out credentials in a
// forged archive, because a delta would load them under another name.
func (m *Manifest) contents() map[contentKey]int {
	found := make(map[contentKey]int, len(m.Entries))
	for i := range m.Entries {
		e := &m.Entries[i]
		if _, tier, rest, ok := splitPath(e.Path); ok && denied(tier, rest) {
			continue
		}
		found[contentKey{place(e.Path), e.Size, e.SHA256}] = i
	}
	return found
}

// A sharer compares files with the files of a base. The zero value has no base.
type sharer struct {
	contents map[contentKey]int
	sizes    map[string]int64 // of the base's files, by path
}

func newSharer(base *Base) *sharer {
	if base == nil {
		return &sharer{}
	}
	s := &sharer{contents: base.Manifest.contents(), sizes: map[string]int64{}}
	for i := range base.Manifest.Entries {
		s.sizes[base.Manifest.Entries[i].Path] = base.Manifest.Entries[i].Size
	}
	return s
}

// prefix returns the content with this hash as a Prefix if the base has it, or nil.
func (s *sharer) prefix(name string, size int64, sum [32]byte) *Prefix {
	key := contentKey{place(name), size, hex.EncodeToString(sum[:])}
	if _, ok := s.contents[key]; !ok || size == 0 {
		return nil
	}
	return &Prefix{Path: name, Size: size, SHA256: key.sum}
}

// grown returns the size of the base's file with this name. ok is true if that file may be the
// beginning of a longer one of size bytes.
func (s *sharer) grown(name string, size int64) (int64, bool) {
	n, ok := s.sizes[name]
	return n, ok && 0 < n && n < size
}

// small records how much an item in memory shares with the base, and returns the rest.
func (s *sharer) small(i *item, data []byte) []byte {
	if i.shared = s.prefix(i.name, i.file.Size, i.sum); i.shared == nil {
		if n, ok := s.grown(i.name, i.file.Size); ok {
			i.shared = s.prefix(i.name, n, sha256.Sum256(data[:n]))
		}
	}
	if i.shared == nil {
		return data
	}
	rest := data[i.shared.Size:]
	i.setTail(sha256.Sum256(rest))
	return rest
}

// large records how much an item shares with the base by reading the item's file. It returns the
// hash of the whole file, or nil if it did not read the file.
func (s *sharer) large(ctx context.Context, i *item) ([]byte, error) {
	if s.contents == nil || i.scanOnly {
		return nil, nil
	}
	n, grown := s.grown(i.name, i.file.Size)
	whole, beginning := sha256.New(), &skipWriter{w: io.Discard}
	first := sha256.New()
	if grown {
		beginning = &skipWriter{w: first, until: n}
	}
	if err := copyFile(ctx, io.MultiWriter(whole, beginning), &i.file); err != nil {
		return nil, err
	}
	sum := whole.Sum(nil)
	if i.shared = s.prefix(i.name, i.file.Size, [32]byte(sum)); i.shared == nil && grown {
		i.shared = s.prefix(i.name, n, [32]byte(first.Sum(nil)))
	}
	return sum, nil
}

// A skipWriter passes on the bytes from the offset from up to the offset until, or up to the end if until is 0.
type skipWriter struct {
	w           io.Writer
	at          int64
	from, until int64
}

func (s *skipWriter) Write(p []byte) (int, error) {
	n := len(p)
	if skip := s.from - s.at; skip > 0 {
		p = p[min(skip, int64(len(p))):]
	}
	if s.until > 0 {
		p = p[:max(0, min(int64(len(p)), s.until-max(s.at, s.from)))]
	}
	s.at += int64(n)
	if len(p) == 0 {
		return n, nil
	}
	if _, err := s.w.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

// setTail completes the shared prefix of an item with the hash of the rest.
func (i *item) setTail(sum [32]byte) {
	if i.shared.Size < i.file.Size {
		i.shared.Tail = hex.EncodeToString(sum[:])
	}
}

// stored returns the name under which the archive stores the content of an item or its tail,
// or "" if it stores neither.
func (i *item) stored() string {
	switch {
	case i.scanOnly:
		return ""
	case i.shared == nil:
		return i.name
	case i.shared.Tail == "":
		return ""
	}
	return tailsName + i.name
}

// delta returns delta.json, or nil for a full archive.
func (p *plan) delta(base *Base) *Delta {
	if base == nil {
		return nil
	}
	d := &Delta{Base: base.Manifest.Digest, Name: base.Name}
	for _, i := range p.items {
		if i.shared != nil {
			d.Files = append(d.Files, *i.shared)
		}
	}
	if len(d.Files) == 0 {
		return nil
	}
	return d
}

// check returns an error unless d lists files of the manifest, in the manifest's order.
func (d *Delta) check(m *Manifest) error {
	if sum, ok := strings.CutPrefix(d.Base, "sha256:"); !ok || !isHash(sum) {
		return errors.New("the base is not named by a state digest")
	}
	if len(d.Name) > maxBaseName {
		return fmt.Errorf("the name of the base is longer than %d bytes", maxBaseName)
	}
	if err := checkRunes(d.Name); err != nil {
		return fmt.Errorf("base: %w", err)
	}
	if len(d.Files) == 0 {
		return errors.New("it names no file")
	}
	next := 0
	for i := range d.Files {
		f := &d.Files[i]
		for next < len(m.Entries) && m.Entries[next].Path != f.Path {
			next++
		}
		if next == len(m.Entries) {
			return fmt.Errorf("%q is not a file of the manifest, or not in its order", f.Path)
		}
		if !f.isOf(&m.Entries[next]) {
			return fmt.Errorf("%q has no such beginning", f.Path)
		}
		next++
	}
	return nil
}

// isOf reports whether an entry can begin with p.
func (p *Prefix) isOf(e *Entry) bool {
	isWhole := p.Size == e.Size && p.SHA256 == e.SHA256 && p.Tail == ""
	isBeginning := p.Size < e.Size && isHash(p.SHA256) && isHash(p.Tail)
	return p.Size > 0 && (isWhole || isBeginning)
}

// isHash reports whether s is a SHA-256 in lower-case hex.
func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// A source is where the content of an entry comes from.
type source struct {
	prefix *Prefix // the part in the base, or nil
	from   int     // the entry of the base, or -1
	header int     // of the content or its tail, or -1
}

// findSources finds the content of each entry. It checks that the archive, from a header on, has
// exactly these files in this order.
func (r *Reader) findSources(header int) error {
	shared := map[string]*Prefix{}
	if r.delta != nil {
		for i := range r.delta.Files {
			shared[r.delta.Files[i].Path] = &r.delta.Files[i]
		}
	}
	r.sources = make([]source, len(r.manifest.Entries))
	r.paths = make(map[string]int, len(r.sources))
	for i := range r.manifest.Entries {
		e := &r.manifest.Entries[i]
		s := source{prefix: shared[e.Path], from: -1, header: -1}
		name, size := e.Path, e.Size
		if s.prefix != nil {
			name, size = tailsName+e.Path, e.Size-s.prefix.Size
		}
		if s.prefix == nil || size > 0 {
			if header >= len(r.headers) {
				return errors.New("the archive has fewer files than the manifest")
			}
			if err := r.headers[header].agrees(name, size, e.Mode == modeExecutable); err != nil {
				return fmt.Errorf("file %d: %w", header+1, err)
			}
			s.header = header
			header++
		}
		r.sources[i] = s
		r.paths[e.Path] = i
	}
	if r.signature != nil {
		header++
	}
	if header != len(r.headers) {
		return fmt.Errorf("the manifest names %d files and the archive has %d", header, len(r.headers))
	}
	return nil
}

func (h *header) agrees(name string, size int64, executable bool) error {
	switch {
	case h.name != name:
		return fmt.Errorf("%q is %q in the manifest", h.name, name)
	case h.size != size, h.executable != executable:
		return fmt.Errorf("%q has another size or mode than the manifest says", name)
	case h.method == methodStore && h.compressed != h.size:
		return fmt.Errorf("%q is stored and has two sizes", name)
	}
	return nil
}

// readDelta reads delta.json, the fourth file.
func (r *Reader) readDelta() ([]byte, error) {
	data, err := r.whole(3, maxManifest)
	if err != nil {
		return nil, err
	}
	r.delta = new(Delta)
	return data, parseExact(data, r.delta)
}

// Delta returns delta.json, or nil for a full archive.
func (r *Reader) Delta() *Delta { return r.delta }

// Missing returns how many files cannot be read without a base, and how many of their bytes are in
// the base. Both are 0 for a full archive, and after UseBase with the right archive.
func (r *Reader) Missing() (files int, bytes int64) {
	for i := range r.sources {
		if r.lacks(i) {
			files++
			bytes += r.sources[i].prefix.Size
		}
	}
	return files, bytes
}

// lacks reports whether the content of an entry is in a base that the reader does not have.
func (r *Reader) lacks(i int) bool { return r.sources[i].prefix != nil && r.sources[i].from < 0 }

// UseBase gives a delta the archive that has the rest of its files. Base may be a delta
// with a base, and must stay open as long as r is used. UseBase accepts any archive and takes from
// it the contents in the same tiers of the same agents, because a reader checks each by its hash. The
// files that base does not have remain missing. The error has KindRefused if too many archives
// are based on each other.
func (r *Reader) UseBase(base *Reader) error {
	depth := 1
	for b := base; b != nil; b = b.base {
		if depth++; depth > maxChain || b == r {
			return segno.Errorf(segno.KindRefused, "use base archive", base.manifest.Digest, "more than %d archives are based on each other", maxChain)
		}
	}
	contents := base.manifest.contents()
	for i := range r.sources {
		s := &r.sources[i]
		if s.prefix == nil {
			continue
		}
		s.from = -1
		if from, ok := contents[contentKey{place(s.prefix.Path), s.prefix.Size, s.prefix.SHA256}]; ok && !base.lacks(from) {
			s.from = from
		}
	}
	r.base = base
	return nil
}

// BaseBeside returns the path that the base of a delta has if it is beside the delta, which is at path. It is "" for a
// full archive, and if the delta has no name of a file for its base. The caller must compare the digest of the file there.
func (r *Reader) BaseBeside(path string) string {
	if r.delta == nil || !filepath.IsLocal(r.delta.Name) || r.delta.Name == "." || filepath.Base(r.delta.Name) != r.delta.Name {
		return ""
	}
	return filepath.Join(filepath.Dir(path), r.delta.Name)
}

// describe names the base for a message.
func (d *Delta) describe() string {
	if d.Name == "" {
		return "archive " + d.Base
	}
	return fmt.Sprintf("archive %s (%s)", d.Base, segno.QuotePath(d.Name))
}

// missingBase is the error for a delta without its base. If the base is itself a delta without a
// base, the error names the base of that one.
func (r *Reader) missingBase(op string) error {
	files, _ := r.Missing()
	in := r.delta
	if r.base != nil && r.base.delta != nil {
		in = r.base.delta
	}
	given := ""
	if r.base != nil {
		given = fmt.Sprintf(", and the base that is given (%s) does not have them", r.base.manifest.Digest)
	}
	return segno.Errorf(segno.KindRefused, op, r.manifest.Digest, "it is a delta: %d of its %d files are in %s%s", files, len(r.sources), in.describe(), given).
		WithHint("name the file of that archive with --base")
}

// copyContent writes the content of an entry. The caller, copyEntry, checks the hash.
func (r *Reader) copyContent(u *unpacker, w io.Writer, i int) error {
	s := &r.sources[i]
	if s.prefix != nil {
		if s.from < 0 {
			return r.missingBase("read archive")
		}
		if err := r.base.copyEntry(u, w, s.from); err != nil {
			return fmt.Errorf("base: %w", err)
		}
	}
	if s.header < 0 {
		return nil
	}
	return r.copyStored(u, w, s.header)
}

// verifyTail checks the part of an entry that a delta stores itself.
func (r *Reader) verifyTail(u *unpacker, i int) error {
	s := &r.sources[i]
	if s.header < 0 {
		return nil
	}
	sum := sha256.New()
	if err := r.copyStored(u, sum, s.header); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != s.prefix.Tail {
		return fmt.Errorf("the tail of %s has another hash than %s", r.manifest.Entries[i].Path, deltaName)
	}
	return nil
}
