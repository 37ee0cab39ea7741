// Package patch describes the changes of files in the format of 'patch -p1' and 'git apply'.
package patch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// Patch is one change in the format of 'patch -p1' and 'git apply'. A comment line, which both
// skip, describes the facts that the format cannot contain: a directory, permission bits other
// than x, a hard link.
type Patch struct {
	Notes          []string
	Text           string
	Added, Deleted int // lines
	Binary         bool
}

// String returns the comment lines and the text.
func (p *Patch) String() string {
	var b strings.Builder
	for _, n := range p.Notes {
		b.WriteString("# " + n + "\n")
	}
	return b.String() + p.Text
}

// side is one side of a change: the git mode and the content of a file. The mode is "" if there is
// no file, or if a patch cannot represent it.
type side struct {
	mode    string
	content []byte
}

func (s side) equal(t side) bool { return s.mode == t.mode && bytes.Equal(s.content, t.content) }

// Reader returns the content of the file with a hash.
type Reader func(ctx context.Context, h segno.Hash) ([]byte, error)

// FromStore returns a Reader of the objects of a store. A missing object is [segno.KindCorrupt].
func FromStore(objects segno.Objects) Reader {
	return func(ctx context.Context, h segno.Hash) ([]byte, error) {
		data, err := objects.Get(ctx, h)
		if segno.KindOf(err) == segno.KindNotFound { // a tree names the object, so the store has lost it
			err = segno.NewError(segno.KindCorrupt, "read file", "", err).WithHint("run 'segno check' to list all damage")
		}
		return data, err
	}
}

// sideOf reads one side of a change. Directories and protected entries have no mode, because a git
// patch cannot contain them.
func sideOf(ctx context.Context, read Reader, e segno.Entity) (s side, err error) {
	switch e.Type {
	case segno.EntityFile, segno.EntityHardLink:
		s.mode = "100644"
		if e.Mode&0o100 != 0 {
			s.mode = "100755"
		}
		s.content, err = read(ctx, e.Hash)
	case segno.EntitySymlink:
		s.mode, s.content = "120000", []byte(e.Target)
	}
	return s, err
}

// Of returns the patch of a change. It omits the content of binary files unless withBinary is set,
// because only 'git apply' can read it.
func Of(ctx context.Context, read Reader, c segno.Change, withBinary bool) (*Patch, error) {
	from, err := sideOf(ctx, read, c.From)
	if err != nil {
		return nil, err
	}
	to, err := sideOf(ctx, read, c.To)
	if err != nil {
		return nil, err
	}
	p := new(Patch)
	if more := unsupportedInPatch(c, from, to); more != "" {
		p.Note(c, more)
	}
	switch {
	case from.mode != "" && to.mode != "" && from.mode[:3] != to.mode[:3]: // a file became a symlink, or the reverse
		p.write(c, from, side{}, withBinary)
		p.write(c, side{}, to, withBinary)
	case from.mode != "" || to.mode != "":
		p.write(c, from, to, withBinary)
	}
	return p, nil
}

// Note adds a comment line about a change.
func (p *Patch) Note(c segno.Change, more string) {
	sign := history.Signed([]segno.Change{c})[0]
	p.Notes = append(p.Notes, strings.TrimSpace(sign.Sign+" "+sign.Name()+"  "+more))
}

// unsupportedInPatch describes the part of a change that a patch cannot represent. It returns "" if
// there is none.
func unsupportedInPatch(c segno.Change, from, to side) string {
	existed, exists := c.From.Type != segno.EntityNone, c.To.Type != segno.EntityNone
	switch {
	case existed && exists && c.From.Type != c.To.Type && (from.mode == "" || to.mode == ""):
		return fmt.Sprintf("%s became %s", c.From.Type, c.To.Type)
	case c.To.Type == segno.EntityHardLink:
		return "hard link to " + segno.QuotePath(c.To.Target)
	case c.From.Type == segno.EntityHardLink && c.To.Type == segno.EntityFile:
		return "no longer a hard link"
	}
	if text := unsupportedMode(c, from.mode == to.mode); text != "" {
		return text
	}
	switch {
	case from.mode == "" && to.mode == "":
		return " " // only the path
	case from.equal(to):
		return "attributes"
	}
	return ""
}

// unsupportedMode describes permission bits of a change that a git mode cannot represent.
func unsupportedMode(c segno.Change, sameGitMode bool) string {
	odd := func(e segno.Entity) bool { return e.Type == segno.EntityFile && e.Mode != 0o644 && e.Mode != 0o755 }
	if c.From.Type == segno.EntityNone || c.To.Type == segno.EntityNone {
		if odd(c.To) {
			return fmt.Sprintf("mode %04o", c.To.Mode)
		}
		return ""
	}
	if c.From.Type == c.To.Type && c.From.Mode != c.To.Mode && (sameGitMode || odd(c.From) || odd(c.To)) {
		return fmt.Sprintf("mode %04o became %04o", c.From.Mode, c.To.Mode)
	}
	return ""
}

// write adds the patch from one side to another.
func (p *Patch) write(c segno.Change, from, to side, withBinary bool) {
	if from.equal(to) {
		return
	}
	sameContent := bytes.Equal(from.content, to.content)
	asBinary := !sameContent && (IsBinary(from.content) || IsBinary(to.content))
	if p.Binary = p.Binary || asBinary; asBinary && !withBinary {
		p.Note(c, "binary: omitted; 'segno diff --binary' prints it for git apply")
		return
	}
	a, b := segno.QuotePath("a/"+c.Path), segno.QuotePath("b/"+c.Path)
	p.Text += "diff --git " + QuoteSpaces(a) + " " + QuoteSpaces(b) + "\n"
	switch {
	case from.mode == "":
		a, p.Text = "/dev/null", p.Text+"new file mode "+to.mode+"\n"
	case to.mode == "":
		b, p.Text = "/dev/null", p.Text+"deleted file mode "+from.mode+"\n"
	case from.mode != to.mode:
		p.Text += "old mode " + from.mode + "\nnew mode " + to.mode + "\n"
	}
	switch {
	case sameContent && from.mode != "" && to.mode != "": // only the mode changed
	case asBinary:
		p.Text += indexLine(from, to, 2*sha1.Size) + gitBinary(from, to)
	default:
		p.Text += indexLine(from, to, 7) + p.hunks(a, b, from, to)
	}
}

// hunks returns the names of both files, followed by the differing lines. It also counts these
// lines.
func (p *Patch) hunks(a, b string, from, to side) string {
	_, hunks, ok := strings.Cut(string(diff.Diff("a", from.content, "b", to.content)), "\n@@ ")
	if !ok {
		return ""
	}
	hunks = "@@ " + hunks
	for line := range strings.Lines(hunks) {
		switch line[0] {
		case '+':
			p.Added++
		case '-':
			p.Deleted++
		}
	}
	return "--- " + TerminateName(a) + "\n+++ " + TerminateName(b) + "\n" + hunks
}

// QuoteSpaces quotes a name with spaces for the first line of a patch, where a space ends a name.
func QuoteSpaces(name string) string {
	if strings.Contains(name, " ") && name[0] != '"' {
		return `"` + name + `"`
	}
	return name
}

// TerminateName adds a tab to a name with spaces, for the lines where a tab ends a name.
func TerminateName(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

// IsBinary reports whether the beginning of a file contains a NUL byte, as git does.
func IsBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }
