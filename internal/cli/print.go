package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/printable"
)

// Printer writes the text of a result and colours it for a terminal. It keeps the first error
// and writes nothing after it, so the code that prints a result handles no errors.
type Printer struct {
	Paint
	w   io.Writer
	Err error
}

// Printer returns a printer to w, with colours if w is a terminal that has them.
func (a *App) Printer(w io.Writer) *Printer { return &Printer{Paint: a.Paint(w), w: w} }

// Linef prints a line. After an error of the writer it does nothing; see Err.
func (p *Printer) Linef(format string, args ...any) { p.write(fmt.Sprintf(format, args...) + "\n") }

func (p *Printer) write(text string) {
	if p.Err == nil {
		_, p.Err = io.WriteString(p.w, text)
	}
}

// Lines writes lines without line endings.
func (p *Printer) Lines(all []string) {
	for _, line := range all {
		p.write(line + "\n")
	}
}

// Changes lists changes, one on each line.
func (p *Printer) Changes(changes []history.Change) {
	text := moves.Text{Paint: p.role}
	text.Changes(changes)
	p.Lines(text.Lines())
}

// fail records err as the error of the result, unless there already is one.
func (p *Printer) fail(err error) { p.Err = cmp.Or(p.Err, err) }

// Print writes the result: v as JSON with --json, else the lines that text prints.
func (a *App) Print(v any, text func(p *Printer)) error {
	a.Bar.Erase()
	if a.capture != nil {
		return a.capture(v, text)
	}
	if a.JSON {
		enc := Encoder(a.Stdout)
		enc.SetIndent("", "  ")
		return WrapWriteError(enc.Encode(v))
	}
	p := a.Printer(a.Stdout)
	text(p)
	return WrapWriteError(p.Err)
}

// PrintLong is like Print, but a result that is longer than the terminal goes through the pager.
func (a *App) PrintLong(v any, text func(p *Printer)) error {
	pager := a.newPager()
	if pager == nil || a.JSON {
		return a.Print(v, text)
	}
	a.Bar.Erase()
	p := a.Printer(pager)
	text(p)
	return WrapWriteError(pager.close(p.Err))
}

// WrapWriteError turns a failed write of the result into an error with the kind of a disk error.
func WrapWriteError(err error) error {
	var write *fs.PathError
	if segno.KindOf(err) == segno.KindInternal && errors.As(err, &write) && write.Op == "write" {
		return segno.NewError(segno.KindIO, "write result", "", err)
	}
	return err
}

// Notef writes a line that is not part of the result to standard error.
func (a *App) Notef(format string, args ...any) {
	a.Bar.Erase()
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

// report prints an error: one line, and a hint.
func (a *App) report(err error) {
	if err == nil || errors.Is(err, errPrinted) {
		a.Bar.Erase()
		return
	}
	a.Bar.Erase()
	fields := a.ErrorFields(err)
	if a.JSON {
		_ = Encoder(a.Stderr).Encode(fields)
		return
	}
	a.Notef("segno: %s", fields["error"])
	if hint := fields["hint"]; hint != "" {
		a.Notef("hint: %s", hint)
	}
}

// ErrorFields returns what --json prints about an error.
func (a *App) ErrorFields(err error) map[string]any {
	text := Clean(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "))
	fields := map[string]any{"error": text, "kind": segno.KindOf(err), "hint": Clean(segno.HintOf(err)), "code": a.exitCode(err)}
	_, more := a.reportOf(err)
	maps.Copy(fields, more)
	return fields
}

// Terminal reports whether f is a terminal.
func Terminal(f any) bool {
	file, ok := FileOf(f)
	return ok && term.IsTerminal(int(file.Fd()))
}

// FileOf returns the file behind a stream or behind a pager.
func FileOf(f any) (*os.File, bool) {
	if p, ok := f.(*pager); ok {
		return p.out, true
	}
	file, ok := f.(*os.File)
	return file, ok
}

// Encoder writes JSON that is safe on a terminal: it escapes characters that could control the
// terminal. The escaped document has the same value.
func Encoder(w io.Writer) *json.Encoder {
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
		ascii := 0 // most bytes of a large result are plain ASCII
		for ascii < len(rest) && (rest[ascii] >= ' ' && rest[ascii] <= '~' || rest[ascii] == '\n') {
			ascii++
		}
		out, rest = append(out, rest[:ascii]...), rest[ascii:]
		if len(rest) == 0 {
			break
		}
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

// MaxLines limits a list of files or findings in text. The JSON has all files.
const MaxLines = 20

// List writes lines below a title, if there are any.
func (p *Printer) List(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.Linef("%s", title)
	for _, line := range lines[:min(len(lines), MaxLines)] {
		p.Linef("  %s", line)
	}
	if more := len(lines) - MaxLines; more > 0 {
		p.Linef("%s", p.Dim(fmt.Sprintf("  and %d more; --json lists all", more)))
	}
}
