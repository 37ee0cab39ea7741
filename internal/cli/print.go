package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/printable"
)

// printer writes the text of a result and colours it for a terminal. It keeps the first error
// and writes nothing after it, so the code that prints a result handles no errors.
type printer struct {
	paint
	w   io.Writer
	err error
}

func (a *app) printer(w io.Writer) *printer { return &printer{paint: a.paint(w), w: w} }

func (p *printer) linef(format string, args ...any) { p.write(fmt.Sprintf(format, args...) + "\n") }

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

// lines writes lines without line endings.
func (p *printer) lines(all []string) {
	for _, line := range all {
		p.write(line + "\n")
	}
}

// changes lists changes, one on each line.
func (p *printer) changes(changes []history.Change) {
	text := moves.Text{Paint: p.role}
	text.Changes(changes)
	p.lines(text.Lines())
}

// fail records err as the error of the result, unless there already is one.
func (p *printer) fail(err error) { p.err = cmp.Or(p.err, err) }

// print writes the result: v as JSON with --json, else the lines that text prints.
func (a *app) print(v any, text func(p *printer)) error {
	a.bar.erase()
	if a.json {
		enc := encoder(a.Stdout)
		enc.SetIndent("", "  ")
		return wrapWriteError(enc.Encode(v))
	}
	p := a.printer(a.Stdout)
	text(p)
	return wrapWriteError(p.err)
}

// printLong is like print, but a result that is longer than the terminal goes through the pager.
func (a *app) printLong(v any, text func(p *printer)) error {
	pager := a.newPager()
	if pager == nil || a.json {
		return a.print(v, text)
	}
	a.bar.erase()
	p := a.printer(pager)
	text(p)
	return wrapWriteError(pager.close(p.err))
}

// wrapWriteError turns a failed write of the result into an error with the kind of a disk error.
func wrapWriteError(err error) error {
	var write *fs.PathError
	if segno.KindOf(err) == segno.KindInternal && errors.As(err, &write) && write.Op == "write" {
		return segno.NewError(segno.KindIO, "write result", "", err)
	}
	return err
}

// notef writes a line that is not part of the result to standard error.
func (a *app) notef(format string, args ...any) {
	a.bar.erase()
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

// report prints an error: one line, and a hint.
func (a *app) report(err error) {
	if err == nil || errors.Is(err, errPrinted) {
		a.bar.erase()
		return
	}
	text := clean(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "))
	hint := clean(segno.HintOf(err))
	if !a.json {
		a.notef("segno: %s", text)
		if hint != "" {
			a.notef("hint: %s", hint)
		}
		return
	}
	a.bar.erase()
	fields := map[string]any{"error": text, "kind": segno.KindOf(err), "hint": hint, "code": exitCode(err)}
	if approval := (*approvalError)(nil); errors.As(err, &approval) {
		fields["waiting"] = approval.ids
	}
	if found := (*archive.CheckpointSecretError)(nil); errors.As(err, &found) {
		fields["findings"] = found.Findings
	}
	_ = encoder(a.Stderr).Encode(fields)
}

func terminal(f any) bool {
	file, ok := fileOf(f)
	return ok && term.IsTerminal(int(file.Fd()))
}

// fileOf returns the file behind a stream or behind a pager.
func fileOf(f any) (*os.File, bool) {
	if p, ok := f.(*pager); ok {
		return p.out, true
	}
	file, ok := f.(*os.File)
	return file, ok
}

// encoder writes JSON that is safe on a terminal: it escapes characters that could control the
// terminal. The escaped document has the same value.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(escapingWriter{w})
	e.SetEscapeHTML(false)
	return e
}

// escapingWriter escapes characters in the strings of JSON documents. Each write must be a whole
// document.
type escapingWriter struct{ io.Writer }

func (h escapingWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == '\n' || !printable.IsUnsafe(r) && (r != utf8.RuneError || n > 1) {
			out = append(out, rest[:n]...)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		rest = rest[n:]
	}
	if _, err := h.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
