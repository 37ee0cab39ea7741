package export

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

const (
	maxFiles     = 500       // files of a turn
	maxDiffInput = 1 << 20   // bytes of one side of a diff
	maxDiffText  = 256 << 10 // bytes of a diff
	maxDiffs     = 2 << 20   // bytes of all diffs of a turn
	maxLine      = 4 << 10   // bytes of one line of a diff
	maxImage     = 1 << 20   // bytes of an image
)

func (r *Reader) addFiles(ctx context.Context, turn *Turn, u *unit) error {
	if !u.before.isSet || !u.after.isSet {
		return nil
	}
	changes, err := workspace.Diff(ctx, r.Store.Objects(), u.before.hash, u.after.hash)
	if err = turn.missObject("the list of changed files", err); err != nil {
		return err
	}
	room := maxDiffs
	for i, c := range changes {
		hasEntries := i+1 < len(changes) && strings.HasPrefix(changes[i+1].Path, c.Path+"/")
		if hasEntries || c.From.Type == segno.EntityProtected || c.To.Type == segno.EntityProtected {
			continue
		}
		if len(turn.Files) == maxFiles {
			turn.MoreFiles++
			continue
		}
		f := fileOf(c)
		if r.Diffs && f.Type != segno.EntityDir {
			if err := r.compare(ctx, turn, &f, c, &room); err != nil {
				return err
			}
		}
		turn.Files = append(turn.Files, f)
	}
	return nil
}

// missObject records a part as missing if its objects are damaged or missing. It returns any other
// error.
func (t *Turn) missObject(what string, err error) error {
	switch segno.KindOf(err) {
	case segno.KindCorrupt, segno.KindNotFound:
		t.miss(what, err)
		return nil
	}
	return err
}

func fileOf(c segno.Change) File {
	f := File{Path: c.Path, Sign: "~", Type: c.To.Type, Size: c.To.Size, Hash: c.To.Hash}
	switch {
	case c.From.Type == segno.EntityNone:
		f.Sign = "+"
	case c.To.Type == segno.EntityNone:
		f.Sign, f.Type, f.Size = "-", c.From.Type, c.From.Size
	}
	return f
}

// compare adds the diff of a file, or the image if the file is one.
func (r *Reader) compare(ctx context.Context, turn *Turn, f *File, c segno.Change, room *int) error {
	var sides [2][]byte
	for i, e := range []segno.Entity{c.From, c.To} {
		switch {
		case e.Type == segno.EntitySymlink:
			sides[i] = []byte(e.Target)
		case e.HasContent() && e.Size > maxDiffInput:
			f.Why = "too large to compare"
			return nil
		case e.HasContent():
			data, err := r.Store.Objects().Get(ctx, e.Hash)
			if err = turn.missObject("the content of "+segno.QuotePath(c.Path), err); err != nil {
				return err
			}
			if data == nil && e.Size > 0 {
				f.Why = "its content is missing"
				return nil
			}
			sides[i] = data
		}
	}
	f.addDiff(sides[0], sides[1], room)
	return nil
}

// addDiff compares two contents.
func (f *File) addDiff(before, after []byte, room *int) {
	if kind := imageType(after); kind != "" && len(after) <= maxImage {
		f.Image = &Image{Type: kind, Data: after}
	}
	switch {
	case isBinary(before) || isBinary(after):
		f.Why = "binary"
		return
	case bytes.Equal(before, after):
		f.Why = "only its attributes changed"
		return
	}
	w := diffReader{file: f, after: after, room: min(*room, maxDiffText)}
	w.read(diff.Diff("a", before, "b", after))
	*room -= w.used
}

// isBinary reports whether the beginning of a file contains a NUL byte, as git does.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// imageType returns the media type of an image that a browser can show without running code in it, or "".
func imageType(data []byte) string {
	switch kind := http.DetectContentType(data[:min(len(data), 512)]); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return kind
	}
	return ""
}

// diffReader reads the text of a unified diff.
type diffReader struct {
	file       *File
	after      []byte
	room, used int
	next       int   // the number of the next line of the new content
	from       int   // the first line of the present range of added lines, or 0
	starts     []int // the offsets of the lines of the new content
}

func (r *diffReader) read(text []byte) {
	_, hunks, ok := bytes.Cut(text, []byte("\n@@ "))
	if !ok {
		return
	}
	hunks = append([]byte("@@ "), hunks...)
	for line := range bytes.Lines(hunks) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		r.count(line)
		r.keep(line)
	}
	r.endRange()
}

// count counts a line and records the ranges of added lines.
func (r *diffReader) count(line []byte) {
	if line[0] != '+' {
		r.endRange()
	}
	switch line[0] {
	case '@':
		_, rest, _ := bytes.Cut(line, []byte(" +"))
		r.next = 0
		for _, c := range rest {
			if c < '0' || c > '9' {
				break
			}
			r.next = r.next*10 + int(c-'0')
		}
	case '+':
		r.file.Added++
		if r.from == 0 {
			r.from = r.next
		}
		r.next++
	case '-':
		r.file.Gone++
	case ' ':
		r.next++
	}
}

func (r *diffReader) endRange() {
	if r.from == 0 {
		return
	}
	if r.starts == nil {
		r.starts = []int{0}
		for line := range bytes.Lines(r.after) {
			r.starts = append(r.starts, r.starts[len(r.starts)-1]+len(line))
		}
	}
	last := len(r.starts) - 1
	lines := r.after[r.starts[min(r.from-1, last)]:r.starts[min(r.next-1, last)]]
	r.file.Ranges = append(r.file.Ranges, Range{From: r.from, To: r.next - 1, Hash: segno.HashOf(lines)})
	r.from = 0
}

// keep adds a line to the diff.
func (r *diffReader) keep(line []byte) {
	if r.used+len(line) > r.room {
		r.file.Why = "the rest of the difference is left out"
		return
	}
	text := line[1:]
	if len(text) > maxLine {
		text = append(append([]byte{}, text[:maxLine]...), "…"...)
	}
	r.used += len(text) + 1
	r.file.Diff = append(r.file.Diff, Line{Op: line[0], Text: strings.ToValidUTF8(string(text), "\uFFFD")})
}
