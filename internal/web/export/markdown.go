package export

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/web/export/markdown"
)

const (
	maxMarkdownText = 64 << 10 // bytes of a prompt or an answer
	maxMarkdownCall = 4 << 10  // bytes of an input or a result
	maxMarkdownDiff = 200      // lines of a diff
)

// markdownWriter writes Markdown that reads well in a pull request: calls and diffs are folded.
type markdownWriter struct {
	w   io.Writer
	err error
}

func writeMarkdown(w io.Writer, s Source) error {
	m := &markdownWriter{w: w}
	h := s.Header
	m.printf("# %s\n\n", oneLine(nameOfThread(h), 120))
	m.printf("Thread `%s`, agent %s, %s, %s.", code(string(h.Thread)), oneLine(h.Agent, 60), day(h.Created), printable.Plural(h.Count, "turn"))
	if h.Fork != nil {
		m.printf(" Forked from thread `%s`.", code(string(h.Fork.Thread)))
	}
	m.printf("\n")
	for t, err := range s.Turns() {
		if err != nil {
			return err
		}
		m.turn(t)
	}
	for _, child := range s.Children {
		m.printf("\n---\n\n")
		if m.err == nil {
			m.err = writeMarkdown(w, child)
		}
	}
	return m.err
}

func (m *markdownWriter) printf(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format, args...)
	}
}

func (m *markdownWriter) turn(t *Turn) {
	if t.Checkpoint.Kind == segno.CheckpointBase {
		return
	}
	marks := ""
	for _, x := range marksOf(t) {
		marks += " · " + oneLine(x, 100)
	}
	m.printf("\n## %s%s\n\n%s\n", oneLine(t.Name, 100), marks, strings.TrimSpace(day(t.End)+" "+oneLine(t.Checkpoint.Label, 200)))
	if u := history.NewUsage(t.Usage, nil); u != nil {
		m.printf("\nTokens: %s\n", u)
	}
	if t.Prompt != "" {
		m.printf("\n%s\n", quoted(markdown.Inert(shorten(t.Prompt, maxMarkdownText))))
	}
	m.images(t.Images)
	for i := range t.Items {
		m.item(&t.Items[i])
	}
	for _, sub := range t.Subagents {
		m.printf("\nSubagent `%s`, %s:\n", code(sub.ID), printable.Plural(len(sub.Calls), "call"))
		for _, c := range sub.Calls {
			m.call(c)
		}
	}
	m.files(t)
	for _, x := range t.Missing {
		m.printf("\n**Missing:** %s\n", oneLine(x, 500))
	}
}

func (m *markdownWriter) item(it *turns.Item) {
	switch {
	case it.Call != nil:
		m.call(it.Call)
	case it.Author == turns.Agent:
		if it.Text != "" {
			m.printf("\n%s\n", markdown.Inert(shorten(it.Text, maxMarkdownText)))
		}
	case it.Author == turns.User:
		m.printf("\n%s\n", quoted(markdown.Inert(shorten(it.Text, maxMarkdownText))))
	default:
		m.printf("\n*Note: %s*\n", oneLine(it.Text, 2000))
	}
	m.images(it.Images)
}

func (m *markdownWriter) images(images []turns.Image) {
	for _, i := range images {
		m.printf("\n*Image: %s, %d bytes*\n", oneLine(cmp.Or(i.Type, "unknown type"), 60), len(i.Data))
	}
}

func (m *markdownWriter) call(c *turns.Call) {
	m.printf("\n<details><summary>%s %s%s</summary>\n\n", "<b>"+oneLine(c.Tool, 60)+"</b>", "<code>"+markdown.Escape(text(c.Subject(100)))+"</code>", outcome(c))
	m.block("", c.InputText(), maxMarkdownCall)
	if c.Result != "" {
		m.block("", c.Result, maxMarkdownCall)
	}
	m.printf("</details>\n")
}

// files lists the changed files and their diffs.
func (m *markdownWriter) files(t *Turn) {
	if len(t.Files) == 0 {
		return
	}
	m.printf("\n<details><summary>%s</summary>\n\n", printable.Plural(len(t.Files)+t.MoreFiles, "changed file"))
	for _, f := range t.Files {
		m.printf("- `%s %s` +%d −%d %s\n", f.Sign, code(segno.QuotePath(f.Path)), f.Added, f.Gone, oneLine(f.Why, 200))
	}
	if t.MoreFiles > 0 {
		m.printf("- and %d more\n", t.MoreFiles)
	}
	m.printf("\n")
	lines := 0
	for _, f := range t.Files {
		if len(f.Diff) == 0 || lines > maxMarkdownDiff {
			continue
		}
		var b strings.Builder
		b.WriteString("--- " + segno.QuotePath(f.Path) + "\n")
		for _, l := range f.Diff[:min(len(f.Diff), maxMarkdownDiff)] {
			b.WriteString(string(l.Op) + l.Text + "\n")
		}
		if more := len(f.Diff) - maxMarkdownDiff; more > 0 {
			fmt.Fprintf(&b, "… %d more lines\n", more)
		}
		lines += len(f.Diff)
		m.block("diff", b.String(), maxDiffText)
	}
	m.printf("</details>\n")
}

// block writes a code block. It chooses a fence that the content cannot close.
func (m *markdownWriter) block(language, content string, most int) {
	content = printable.Patch(strings.TrimRight(shorten(content, most), "\n"))
	fence := "```"
	for strings.Contains(content, fence) {
		fence += "`"
	}
	m.printf("%s%s\n%s\n%s\n\n", fence, language, content, fence)
}

// quoted formats text as a Markdown block quote.
func quoted(text string) string { return "> " + strings.ReplaceAll(text, "\n", "\n> ") }

// oneLine returns text that is safe within a line of Markdown.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(shorten(text, most)), " ")
	return strings.NewReplacer("<", "&lt;", "[", `\[`, "`", "'", "*", `\*`, "_", `\_`).Replace(printable.Patch(text))
}

// code returns text as inline code.
func code(text string) string {
	return strings.ReplaceAll(printable.Patch(strings.ReplaceAll(text, "\n", " ")), "`", "'")
}

// shorten cuts a text at a number of bytes and mentions how many are left out.
func shorten(s string, most int) string {
	if len(s) <= most {
		return text(s)
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("\n… %d more bytes", len(s)-most)
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// marksOf returns the marks of a turn that readers should know.
func marksOf(t *Turn) (out []string) {
	c := &t.Checkpoint
	for _, x := range []struct {
		on   bool
		text string
	}{{!t.IsTurn(), kindText(c)}, {t.Inherited, "before the fork"}, {t.Undone, "undone"}, {c.Interrupted, "interrupted"},
		{c.Shared, "another thread worked in the directory at the same time"}, {c.Partial(), "some files were not saved"}} {
		if x.on {
			out = append(out, x.text)
		}
	}
	return out
}

// kindText describes a checkpoint that no turn made.
func kindText(c *segno.Checkpoint) string {
	switch c.Kind {
	case segno.CheckpointExternal:
		return "changes outside turns"
	case segno.CheckpointSave:
		return "saved by the user"
	case segno.CheckpointRestore:
		return "restored"
	case segno.CheckpointBase:
		return "the beginning"
	}
	return string(c.Kind)
}
