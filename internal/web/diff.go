package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/workspace"
)

// The kinds of a difference.
const (
	diffText      = "text"
	diffBinary    = "binary"
	diffImage     = "image"
	diffLink      = "link"
	diffDirectory = "directory"
	diffLarge     = "large"
)

// maxDiff is the largest size of a file that the server compares by lines.
const maxDiff = 16 << 20

// maxLine is the number of bytes of a line in a response.
const maxLine = 4 << 10

// fileDiff is a window of the difference of one path.
type fileDiff struct {
	Path      string     `json:"path"`
	PathBytes []byte     `json:"path_bytes,omitempty"`
	Kind      string     `json:"kind"`
	Before    *fileSide  `json:"before"` // null if the path did not exist
	After     *fileSide  `json:"after"`
	Total     int        `json:"lines_total"`
	Added     int        `json:"added"`
	Removed   int        `json:"removed"`
	Offset    int        `json:"offset"`
	Lines     []diffLine `json:"lines"`
	Next      int        `json:"next"` // the offset of the next window, 0 at the end
}

// fileSide is one side of a difference.
type fileSide struct {
	Type   segno.EntityType `json:"type"`
	Bytes  int64            `json:"bytes"`
	Hash   string           `json:"hash"`
	Mode   string           `json:"mode"`
	Target string           `json:"target"` // of a link
	Media  string           `json:"media"`  // "image/png", …, "" for no image
}

type diffParams struct {
	From segno.CommitID `query:"from" max:"1024"`
	To   segno.CommitID `query:"to" max:"1024" required:"true"`
	diffWindow
}

// diffWindow selects lines of the difference of one path.
type diffWindow struct {
	Path      string `query:"path" max:"4096"`
	PathBytes string `query:"path_bytes" max:"8192"`
	Offset    int    `query:"offset"`
	N         int    `query:"n" default:"2000" min:"1" max:"2000"`
}

func (p *diffParams) resultKey() string {
	if p.To == present {
		return ""
	}
	return string(p.To) + "-" + shortHash([]byte(segno.DerivedID("diff", string(p.From), p.Path, p.PathBytes, itoa(p.Offset), itoa(p.N))))
}

// pathOf returns the path from two parameters. The second has the path in base64 if it is not valid UTF-8.
func pathOf(plain, encoded string) (string, error) {
	if encoded == "" && plain == "" {
		return "", invalidParameter("path", "missing")
	}
	if encoded == "" {
		return plain, nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(data) == 0 {
		return "", invalidParameter("path_bytes", "not base64")
	}
	return string(data), nil
}

func (s *Server) getDiff(ctx context.Context, p *diffParams) (fileDiff, error) {
	name, err := pathOf(p.Path, p.PathBytes)
	if err != nil {
		return fileDiff{}, err
	}
	d := newFileDiff(name, p.Offset)
	a, b, err := s.treesOf(ctx, p.From, p.To)
	if err != nil {
		return d, err
	}
	before, err := s.lookup(ctx, a, name)
	if err != nil {
		return d, err
	}
	after, err := s.lookup(ctx, b, name)
	if err != nil {
		return d, err
	}
	if before.Type == segno.EntityNone && after.Type == segno.EntityNone {
		return d, segno.NewError(segno.KindNotFound, "find file", name, nil)
	}
	return d, s.fillDiff(ctx, &d, before, after, &p.diffWindow)
}

func newFileDiff(name string, offset int) fileDiff {
	return fileDiff{Path: name, PathBytes: segno.PathBytes(name), Kind: diffText, Lines: []diffLine{}, Offset: offset}
}

type previewDiffParams struct {
	ID string `path:"id" max:"200"`
	diffWindow
}

// getPreviewDiff returns a window of the difference between the present content of a path and the content that a
// previewed move writes. The preview has both, so that a merged file is shown as it will be.
func (s *Server) getPreviewDiff(ctx context.Context, p *previewDiffParams) (fileDiff, error) {
	name, err := pathOf(p.Path, p.PathBytes)
	if err != nil {
		return fileDiff{}, err
	}
	x := s.previews.find(p.ID)
	if x == nil {
		return fileDiff{}, segno.Errorf(segno.KindNotFound, "read difference", p.ID, "no such preview").WithHint("make a new preview")
	}
	c, ok := x.prepared.Step(name)
	if !ok {
		return fileDiff{}, segno.NewError(segno.KindNotFound, "find file", name, nil)
	}
	d := newFileDiff(name, p.Offset)
	return d, s.fillDiff(ctx, &d, c.From, c.To, &p.diffWindow)
}

// lookup returns the entity at a path of a tree, or the zero Entity if there is none.
func (s *Server) lookup(ctx context.Context, tree segno.Hash, name string) (segno.Entity, error) {
	e, err := workspace.Lookup(ctx, s.Store.Objects(), tree, name)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return segno.Entity{}, nil
	}
	return e, err
}

// fillDiff fills d with a window of the difference between two entities.
func (s *Server) fillDiff(ctx context.Context, d *fileDiff, before, after segno.Entity, p *diffWindow) error {
	d.Before, d.After = sideOf(before), sideOf(after)
	switch {
	case before.Size > maxDiff || after.Size > maxDiff:
		d.Kind = diffLarge
		return nil
	case isDirectory(before) && isDirectory(after) || before.Type == segno.EntityProtected || after.Type == segno.EntityProtected:
		d.Kind = diffDirectory
		return nil
	}
	lines, err := s.diffLines(ctx, before, after)
	if err != nil {
		return err
	}
	d.Kind, d.Total, d.Added, d.Removed = lines.kind, len(lines.all), lines.added, lines.removed
	for side, media := range map[*fileSide]string{d.Before: lines.mediaBefore, d.After: lines.mediaAfter} {
		if side != nil {
			side.Media = media
		}
	}
	if p.Offset > 0 && p.Offset >= d.Total {
		return invalidParameter("offset", "the difference has "+itoa(d.Total)+" lines")
	}
	d.Lines = lines.window(p.Offset, p.N)
	if next := p.Offset + len(d.Lines); next < d.Total {
		d.Next = next
	}
	return nil
}

func isDirectory(e segno.Entity) bool { return e.Type == segno.EntityDir || e.Type == segno.EntityNone }

func sideOf(e segno.Entity) *fileSide {
	if e.Type == segno.EntityNone {
		return nil
	}
	side := &fileSide{Type: e.Type, Bytes: e.Size, Target: history.Cut(e.Target, maxLine), Mode: strconv.FormatInt(int64(e.Mode), 8)}
	if !e.Hash.IsZero() {
		side.Hash = e.Hash.String()
	}
	return side
}

// lineDiff is the difference of two contents by lines.
type lineDiff struct {
	kind                    string
	mediaBefore, mediaAfter string
	all                     []lineOp
	added, removed          int
}

// diffKey is the key of a lineDiff in the cache.
type diffKey struct{ before, after segno.Hash }

// diffLines compares the contents of two entities.
func (s *Server) diffLines(ctx context.Context, before, after segno.Entity) (*lineDiff, error) {
	key := diffKey{contentKey(before), contentKey(after)}
	if have, ok := s.diffs.get(key); ok {
		return have, nil
	}
	release, err := s.acquireHeavy(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	old, err := s.content(ctx, before)
	if err != nil {
		return nil, err
	}
	now, err := s.content(ctx, after)
	if err != nil {
		return nil, err
	}
	d := &lineDiff{kind: diffText, mediaBefore: imageType(old), mediaAfter: imageType(now)}
	switch {
	case before.Type == segno.EntitySymlink || after.Type == segno.EntitySymlink:
		d.kind = diffLink
	case isBitmap(d.mediaBefore) || isBitmap(d.mediaAfter):
		d.kind = diffImage
	case patch.IsBinary(old) || patch.IsBinary(now):
		d.kind = diffBinary
	}
	if d.kind == diffText || d.kind == diffLink {
		d.parse(string(diff.Diff("a", old, "b", now)))
	}
	const perLine = 64 // bytes of a lineOp and its share of the text
	s.diffs.put(key, d, int64(len(old)+len(now)+perLine*len(d.all)))
	return d, nil
}

// contentKey identifies the content of an entity: the hash of a file, or a hash of the target of a link.
func contentKey(e segno.Entity) segno.Hash {
	if e.Type == segno.EntitySymlink {
		return segno.HashOf([]byte("symlink\x00" + e.Target))
	}
	return e.Hash
}

// content returns the content of a file, or the target of a link.
func (s *Server) content(ctx context.Context, e segno.Entity) ([]byte, error) {
	switch e.Type {
	case segno.EntityFile, segno.EntityHardLink:
		return patch.FromStore(s.Store.Objects())(ctx, e.Hash)
	case segno.EntitySymlink:
		return []byte(e.Target), nil
	}
	return nil, nil
}

// imageType returns the type of an image that a browser may show, else "".
func imageType(data []byte) string {
	switch t := http.DetectContentType(data); t {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return t
	}
	head := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 512)]))
	if bytes.HasPrefix(head, []byte("<svg")) || bytes.HasPrefix(head, []byte("<?xml")) && bytes.Contains(head, []byte("<svg")) {
		return mediaSVG
	}
	return ""
}

const mediaSVG = "image/svg+xml"

func isBitmap(media string) bool { return media != "" && media != mediaSVG }

// baseName is the last part of a path as valid UTF-8, for the name of a download.
func baseName(name string) string { return strings.ToValidUTF8(path.Base(name), "_") }

func itoa(n int) string { return strconv.Itoa(n) }
