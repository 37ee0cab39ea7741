package cli

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

// patch is one change in the format of 'patch -p1' and 'git apply'. A comment line, which both
// skip, describes the facts that the format cannot contain: a directory, permission bits other
// than x, a hard link.
type patch struct {
	notes          []string
	text           string
	added, deleted int // lines
	binary         bool
}

func (p *patch) String() string {
	var b strings.Builder
	for _, n := range p.notes {
		b.WriteString("# " + n + "\n")
	}
	return b.String() + p.text
}

// side is one side of a change: the git mode and the content of a file. The
// mode is "" if there is no file, or none that a patch can represent.
type side struct {
	mode    string
	content []byte
}

func (s side) equal(t side) bool { return s.mode == t.mode && bytes.Equal(s.content, t.content) }

// contentReader returns the content of a file that has a hash.
type contentReader func(ctx context.Context, h segno.Hash) ([]byte, error)

// content reads a file's content from the store.
func (d *openWorkspace) content(ctx context.Context, h segno.Hash) ([]byte, error) {
	data, err := d.store.Objects().Get(ctx, h)
	if segno.KindOf(err) == segno.KindNotFound { // a tree names it, so the store has lost it
		err = segno.NewError(segno.KindCorrupt, "read file", "", err).WithHint("run 'segno check' to list all damage")
	}
	return data, err
}

// sideOf reads one side of a change. A directory and a protected entry have no mode, because git
// does not have them.
func sideOf(ctx context.Context, read contentReader, e segno.Entity) (s side, err error) {
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

// patchOf makes the patch of a change. It omits the content of binary files unless
// withBinary is set, because only 'git apply' can read it.
func patchOf(ctx context.Context, read contentReader, c segno.Change, withBinary bool) (*patch, error) {
	from, err := sideOf(ctx, read, c.From)
	if err != nil {
		return nil, err
	}
	to, err := sideOf(ctx, read, c.To)
	if err != nil {
		return nil, err
	}
	p := new(patch)
	if more := unsupportedInPatch(c, from, to); more != "" {
		p.note(c, more)
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

func (p *patch) note(c segno.Change, more string) {
	sign := history.Signed([]segno.Change{c})[0]
	p.notes = append(p.notes, strings.TrimSpace(sign.Sign+" "+changeName(sign)+"  "+more))
}

// unsupportedInPatch describes the part of a change that a patch cannot represent, or is "".
func unsupportedInPatch(c segno.Change, from, to side) string {
	existed, exists := c.From.Type != segno.EntityNone, c.To.Type != segno.EntityNone
	switch {
	case existed && exists && c.From.Type != c.To.Type && (from.mode == "" || to.mode == ""):
		return fmt.Sprintf("%s became %s", c.From.Type, c.To.Type)
	case c.To.Type == segno.EntityHardLink:
		return "hard link to " + quotePath(c.To.Target)
	case c.From.Type == segno.EntityHardLink && c.To.Type == segno.EntityFile:
		return "no longer a hard link"
	}
	if text := unsupportedMode(c, from.mode == to.mode); text != "" {
		return text
	}
	switch {
	case from.mode == "" && to.mode == "":
		return " " // the path alone
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
func (p *patch) write(c segno.Change, from, to side, withBinary bool) {
	if from.equal(to) {
		return
	}
	sameContent := bytes.Equal(from.content, to.content)
	asBinary := !sameContent && (isBinary(from.content) || isBinary(to.content))
	if p.binary = p.binary || asBinary; asBinary && !withBinary {
		p.note(c, "binary: omitted; 'segno diff --binary' prints it for git apply")
		return
	}
	a, b := quotePath("a/"+c.Path), quotePath("b/"+c.Path)
	p.text += "diff --git " + quoteSpaces(a) + " " + quoteSpaces(b) + "\n"
	switch {
	case from.mode == "":
		a, p.text = "/dev/null", p.text+"new file mode "+to.mode+"\n"
	case to.mode == "":
		b, p.text = "/dev/null", p.text+"deleted file mode "+from.mode+"\n"
	case from.mode != to.mode:
		p.text += "old mode " + from.mode + "\nnew mode " + to.mode + "\n"
	}
	switch {
	case sameContent && from.mode != "" && to.mode != "": // only the mode changed
	case asBinary:
		p.text += indexLine(from, to, 2*sha1.Size) + gitBinary(from, to)
	default:
		p.text += indexLine(from, to, 7) + p.hunks(a, b, from, to)
	}
}

// hunks returns the differing lines below the names of both files, and counts them.
func (p *patch) hunks(a, b string, from, to side) string {
	_, hunks, ok := strings.Cut(string(diff.Diff("a", from.content, "b", to.content)), "\n@@ ")
	if !ok {
		return ""
	}
	hunks = "@@ " + hunks
	for line := range strings.Lines(hunks) {
		switch line[0] {
		case '+':
			p.added++
		case '-':
			p.deleted++
		}
	}
	return "--- " + terminateName(a) + "\n+++ " + terminateName(b) + "\n" + hunks
}

// quoteSpaces quotes a name with spaces for the first line of a patch, where a space ends a name.
func quoteSpaces(name string) string {
	if strings.Contains(name, " ") && name[0] != '"' {
		return `"` + name + `"`
	}
	return name
}

// terminateName adds a tab to a name with spaces, for the lines where a tab ends a name.
func terminateName(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

// isBinary reports whether the beginning of a file contains a NUL byte, as git does.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }
