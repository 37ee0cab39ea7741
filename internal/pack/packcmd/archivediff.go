package packcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

// maxPatched is the size of the largest file that diff reads into memory to make a patch.
const maxPatched = 64 << 20

// runArchiveDiff compares two archives by the hashes of their files.
func (a *app) runArchiveDiff(ctx context.Context, args, paths []string, flags cli.DiffFlags) error {
	if len(args) != 2 || !cli.IsArchiveName(args[0]) || !cli.IsArchiveName(args[1]) {
		return cli.Usage(errors.New("an archive can be compared with another archive only"))
	}
	var pair archivePair
	var all []*archive.Reader // the two, and the bases that the flags name
	for i, arg := range append(args[:2:2], flags.Bases...) {
		name, _, err := archivefile.ArchivePath(a.App, arg)
		if err != nil {
			return err
		}
		r, err := archivefile.OpenArchive(a.App, name, flags.Identity)
		if err != nil {
			return err
		}
		defer r.Close()
		if all = append(all, r); i < len(pair) {
			pair[i] = r
		}
	}
	if err := pair.useBases(all[len(pair):]); err != nil {
		return err
	}
	changes, err := pair.changes()
	if err != nil {
		return err
	}
	if len(changes) == 0 && pair[0].Manifest().Digest != pair[1].Manifest().Digest {
		a.Notef("note: the files are the same; the archives differ in times of files, in what was left out, or in the names of sessions")
	}
	if len(paths) > 0 {
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !cli.IsUnder(c.Path, paths) })
	}
	return a.PrintDiff(nil, changes, flags, func(withBinary bool) cli.Patcher {
		return func(c segno.Change) (*patch.Patch, error) {
			p, err := pair.patchOf(ctx, c, withBinary)
			return p, archivefile.ExplainBadArchive(err)
		}
	})
}

// archivePair contains the archives of a comparison: from and to.
type archivePair [2]*archive.Reader

// useBases gives deltas their bases: archives that the flags name, and for each archive the other one.
func (x archivePair) useBases(bases []*archive.Reader) error {
	for i, r := range x {
		all := bases
		if other := x[1-i]; r.Delta() != nil && other.Manifest().Digest == r.Delta().Base {
			all = append([]*archive.Reader{other}, bases...)
		}
		if err := archivefile.UseBases(r, all); err != nil {
			return err
		}
	}
	return nil
}

// changes returns the differences between the archives, sorted by path.
func (x archivePair) changes() ([]segno.Change, error) {
	from, err := entitiesOf(x[0].Manifest())
	if err != nil {
		return nil, err
	}
	to, err := entitiesOf(x[1].Manifest())
	if err != nil {
		return nil, err
	}
	var changes []segno.Change
	for name, e := range from {
		if e != to[name] {
			changes = append(changes, segno.Change{Path: name, From: e, To: to[name]})
		}
	}
	for name, e := range to {
		if from[name].Type == segno.EntityNone {
			changes = append(changes, segno.Change{Path: name, To: e})
		}
	}
	slices.SortFunc(changes, func(a, b segno.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

func entitiesOf(m *archive.Manifest) (map[string]segno.Entity, error) {
	all := map[string]segno.Entity{}
	addDirs := func(name string) {
		for ; name != "." && all[name].Type == segno.EntityNone; name = path.Dir(name) {
			all[name] = segno.Entity{Type: segno.EntityDir}
		}
	}
	for _, e := range m.Entries {
		hash, err := segno.ParseHash(e.SHA256)
		if err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read archive", e.Path, err)
		}
		mode := uint32(0o644)
		if e.Mode == "0755" {
			mode = 0o755
		}
		all[e.Path] = segno.Entity{Type: segno.EntityFile, Mode: mode, Hash: hash, Size: e.Size}
		addDirs(path.Dir(e.Path))
	}
	for _, l := range m.Links {
		all[l.Path] = segno.Entity{Type: segno.EntitySymlink, Target: l.Target}
		addDirs(path.Dir(l.Path))
	}
	for _, d := range m.Dirs {
		addDirs(d)
	}
	return all, nil
}

// patchOf makes the patch of a change. For a transcript, the patch has only the records that
// differ.
func (x archivePair) patchOf(ctx context.Context, c segno.Change, withBinary bool) (*patch.Patch, error) {
	if c.From.HasContent() && c.To.HasContent() && c.From.Hash != c.To.Hash && isTranscript(c.Path) {
		return x.records(c)
	}
	if max(c.From.Size, c.To.Size) > maxPatched {
		p := new(patch.Patch)
		p.Note(c, fmt.Sprintf("too large to show: %s became %s", cli.Size(c.From.Size), cli.Size(c.To.Size)))
		return p, nil
	}
	read := func(_ context.Context, h segno.Hash) ([]byte, error) {
		r := x[0]
		if h == c.To.Hash {
			r = x[1]
		}
		var b bytes.Buffer
		err := r.ReadFile(c.Path, &b)
		return b.Bytes(), err
	}
	return patch.Of(ctx, read, c, withBinary)
}

// isTranscript reports whether a path is a file of records to which an agent only appends.
func isTranscript(name string) bool {
	return archivefile.IsSessionPath(name) && strings.HasSuffix(name, ".jsonl")
}

// records makes the patch of a transcript: one hunk without context, after the records that both
// sides share. It reads them as streams, because a transcript can be large.
func (x archivePair) records(c segno.Change) (*patch.Patch, error) {
	same, lines, err := x.commonRecords(c.Path)
	if err != nil {
		return nil, err
	}
	p := new(patch.Patch)
	if max(c.From.Size, c.To.Size)-same > maxPatched {
		p.Note(c, fmt.Sprintf("too large to show: %s are the same", cli.Plural(lines, "record")))
		return p, nil
	}
	var tails [2][]byte
	for i, r := range x {
		tail := &tailWriter{skip: same}
		if err := r.ReadFile(c.Path, tail); err != nil {
			return nil, err
		}
		tails[i] = tail.data
	}
	p.Deleted, p.Added = countLines(tails[0]), countLines(tails[1])
	a, b := cli.QuotePath("a/"+c.Path), cli.QuotePath("b/"+c.Path)
	p.Text = fmt.Sprintf("diff --git %s %s\n--- %s\n+++ %s\n@@ -%s +%s @@\n", patch.QuoteSpaces(a), patch.QuoteSpaces(b), patch.TerminateName(a), patch.TerminateName(b),
		hunkRange(lines, p.Deleted), hunkRange(lines, p.Added)) + signLines("-", tails[0]) + signLines("+", tails[1])
	return p, nil
}

// hunkRange is one side of a hunk's first line. A side without lines names the line before it.
func hunkRange(before, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", before)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}

func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

func signLines(sign string, text []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(text) {
		b.WriteString(sign)
		b.Write(line)
		if line[len(line)-1] != '\n' {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	return b.String()
}

// commonRecords returns how many bytes and lines at the beginning of a file both archives have.
func (x archivePair) commonRecords(name string) (same int64, lines int, err error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := x[0].ReadFile(name, w)
		w.CloseWithError(err)
		done <- err
	}()
	compare := &prefixWriter{other: r}
	err = x[1].ReadFile(name, compare)
	r.CloseWithError(errDiffers) // stops the goroutine if it is still reading
	if otherErr := <-done; err == nil || errors.Is(err, errDiffers) {
		err = otherErr
	}
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return compare.same, compare.lines, err
}

// errDiffers stops reading a file at the first difference.
var errDiffers = errors.New("the contents differ")

// prefixWriter compares the bytes that it receives with the bytes of another reader.
type prefixWriter struct {
	other io.Reader
	n     int64 // bytes that are the same
	same  int64 // bytes up to the end of the last whole line that is the same
	lines int
}

func (w *prefixWriter) Write(p []byte) (int, error) {
	other := make([]byte, len(p))
	n, err := io.ReadFull(w.other, other)
	equal := 0
	for equal < n && p[equal] == other[equal] {
		if equal++; p[equal-1] == '\n' {
			w.lines++
			w.same = w.n + int64(equal)
		}
	}
	w.n += int64(equal)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return 0, err
	case equal < len(p):
		return 0, errDiffers
	}
	return len(p), nil
}

// tailWriter keeps the bytes that it receives after the first ones.
type tailWriter struct {
	skip int64
	data []byte
}

func (w *tailWriter) Write(p []byte) (int, error) {
	n := min(w.skip, int64(len(p)))
	w.skip -= n
	w.data = append(w.data, p[n:]...)
	return len(p), nil
}
