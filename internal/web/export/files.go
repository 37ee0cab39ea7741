package export

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/history/turns"
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
	if r.Ranges {
		return r.addRanges(ctx, turn, changes)
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

// addRanges adds to the files of a turn the ranges of lines that were not there before.
func (r *Reader) addRanges(ctx context.Context, turn *Turn, changes []segno.Change) error {
	for i := range turn.Files {
		f := &turn.Files[i]
		if f.Added == 0 || f.Type == segno.EntitySymlink {
			continue
		}
		if err := turn.missObject("the origin of lines of "+segno.QuotePath(f.Path), r.addRangesOf(ctx, turn, f, changes)); err != nil {
			return err
		}
	}
	return nil
}

// addRangesOf adds the ranges of a file, with the checkpoints that first brought the lines: the turn's own, or another one if a
// move brought them back.
func (r *Reader) addRangesOf(ctx context.Context, turn *Turn, f *File, changes []segno.Change) error {
	b := blame.Blamer{Store: r.Store, Content: patch.FromStore(r.Store.Objects())}
	_, before, err := b.Former(ctx, changes, f.Path, f.Hash)
	var old, after []byte
	if err == nil {
		after, err = b.Content(ctx, f.Hash)
	}
	if err == nil && before.HasContent() {
		old, err = b.Content(ctx, before.Hash)
	}
	if err != nil {
		return err
	}
	texts := slices.Collect(bytes.Lines(after))
	var origins []blame.Line
	if !turn.IsTurn() {
		if origins, err = b.Lines(ctx, blame.State{Checkpoint: &turn.Checkpoint, Path: f.Path, Hash: f.Hash}, 0, len(texts)); err != nil {
			return err
		}
	}
	for _, h := range patch.Hunks(old, after) {
		for from, end := h.To, h.To; from < h.ToEnd; from = end {
			var by *segno.Checkpoint
			for end++; end < h.ToEnd && (origins == nil || origins[end].Origin == origins[from].Origin); end++ {
			}
			if origins != nil && origins[from].Author == blame.Turn {
				by = origins[from].Checkpoint
			}
			f.Ranges = append(f.Ranges, Range{From: from + 1, To: end, Hash: segno.HashOf(bytes.Join(texts[from:end], nil)), By: by})
		}
	}
	return nil
}

// addDiff compares two contents.
func (f *File) addDiff(before, after []byte, room *int) {
	if kind := imageType(after); kind != "" && len(after) <= maxImage {
		f.Image = &turns.Image{Type: kind, Data: after}
	}
	switch {
	case patch.IsBinary(before) || patch.IsBinary(after):
		f.Why = "binary"
		return
	case bytes.Equal(before, after):
		f.Why = "only its attributes changed"
		return
	}
	w := diffReader{file: f, room: min(*room, maxDiffText)}
	w.read(diff.Diff("a", before, "b", after))
	*room -= w.used
}

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
	room, used int
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
}

// count counts a line.
func (r *diffReader) count(line []byte) {
	switch line[0] {
	case '+':
		r.file.Added++
	case '-':
		r.file.Gone++
	}
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
