package cli

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dalsegno/segno"
)

// patch is one change as 'patch -p1' and 'git apply' read it. What the format cannot
// carry (a directory, permission bits beside x, that a file is a hard link) is a comment
// line, which both skip.
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

func sideOf(ctx context.Context, d *openWorkspace, e segno.Entity) (s side, err error) {
	switch e.Type {
	case segno.EntityFile, segno.EntityHardLink:
		s.mode = "100644"
		if e.Mode&0o100 != 0 {
			s.mode = "100755"
		}
		s.content, err = d.store.Objects().Get(ctx, e.Hash)
	case segno.EntitySymlink:
		s.mode, s.content = "120000", []byte(e.Target)
	}
	return s, err
}

// patchOf makes the patch of a change. The content of binary files is left out unless
// whole is set: only 'git apply' can read it.
func patchOf(ctx context.Context, d *openWorkspace, c segno.Change, whole bool) (*patch, error) {
	from, err := sideOf(ctx, d, c.From)
	if err != nil {
		return nil, err
	}
	to, err := sideOf(ctx, d, c.To)
	if err != nil {
		return nil, err
	}
	p := new(patch)
	if more := unsupportedInPatch(c, from, to); more != "" {
		p.note(c, more)
	}
	switch {
	case from.mode != "" && to.mode != "" && from.mode[:3] != to.mode[:3]: // a file became a symlink, or the reverse
		p.write(c, from, side{}, whole)
		p.write(c, side{}, to, whole)
	case from.mode != "" || to.mode != "":
		p.write(c, from, to, whole)
	}
	return p, nil
}

func (p *patch) note(c segno.Change, more string) {
	sign := signed([]segno.Change{c})[0]
	p.notes = append(p.notes, strings.TrimSpace(sign.Sign+" "+sign.name()+"  "+more))
}

// unsupportedInPatch describes the part of a change that a patch cannot represent, or is "".
func unsupportedInPatch(c segno.Change, from, to side) string {
	odd := func(e segno.Entity) bool { return e.Type == segno.EntityFile && e.Mode != 0o644 && e.Mode != 0o755 }
	both := c.From.Type != segno.EntityNone && c.To.Type != segno.EntityNone
	switch {
	case both && c.From.Type != c.To.Type && (from.mode == "" || to.mode == ""):
		return fmt.Sprintf("%s became %s", c.From.Type, c.To.Type)
	case c.To.Type == segno.EntityHardLink:
		return "hard link to " + quotePath(c.To.Target)
	case c.From.Type == segno.EntityHardLink && c.To.Type == segno.EntityFile:
		return "no longer a hard link"
	case both && c.From.Type == c.To.Type && c.From.Mode != c.To.Mode && (from.mode == to.mode || odd(c.From) || odd(c.To)):
		return fmt.Sprintf("mode %04o became %04o", c.From.Mode, c.To.Mode)
	case !both && odd(c.To):
		return fmt.Sprintf("mode %04o", c.To.Mode)
	case from.mode == "" && to.mode == "":
		return " " // the path alone
	case from.mode == to.mode && bytes.Equal(from.content, to.content):
		return "attributes"
	}
	return ""
}

// write adds the patch from one side to another.
func (p *patch) write(c segno.Change, from, to side, whole bool) {
	if from.mode == to.mode && bytes.Equal(from.content, to.content) {
		return
	}
	asBinary := !bytes.Equal(from.content, to.content) && (isBinary(from.content) || isBinary(to.content))
	if p.binary = p.binary || asBinary; asBinary && !whole {
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
	if bytes.Equal(from.content, to.content) && from.mode != "" && to.mode != "" {
		return
	}
	if asBinary {
		p.text += indexLine(from, to, 2*sha1.Size) + gitBinary(from, to)
		return
	}
	p.text += indexLine(from, to, 7)
	hunks := diff.Diff("a", from.content, "b", to.content)
	i := bytes.Index(hunks, []byte("\n@@ "))
	if i < 0 {
		return
	}
	for line := range strings.Lines(string(hunks[i+1:])) {
		switch line[0] {
		case '+':
			p.added++
		case '-':
			p.deleted++
		}
	}
	p.text += "--- " + terminateName(a) + "\n+++ " + terminateName(b) + "\n" + string(hunks[i+1:])
}

// quoteSpaces quotes a name with spaces for the first line of a patch, where a space ends a
// name; ended marks its end in the lines below, where a tab does.
func quoteSpaces(name string) string {
	if strings.Contains(name, " ") && name[0] != '"' {
		return `"` + name + `"`
	}
	return name
}

func terminateName(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

// isBinary looks for a NUL in the beginning, as git does.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }
