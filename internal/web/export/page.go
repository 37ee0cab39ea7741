package export

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
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

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

const (
	maxPageText   = 1 << 20   // bytes of a prompt or an answer
	maxPageCall   = 64 << 10  // bytes of an input or a result
	maxPageImages = 16 << 20  // bytes of all images of a page
	maxPageDiffs  = 512 << 10 // bytes of all diffs of a turn
	maxOpenDiff   = 40        // lines of a diff that is not folded
)

// pageWriter writes one HTML file that loads no other files. The page is readable without its
// script, which only unfolds everything at once, for example before printing.
type pageWriter struct {
	w      io.Writer
	err    error
	images int // bytes of images so far
	anchor int // the number of the last turn
}

// writePage writes a page. All content goes through [markdown.Escape] or [markdown.HTML].
func writePage(w io.Writer, s Source) error {
	p := &pageWriter{w: w}
	title, _, _ := strings.Cut(nameOfThread(s.Header), "\n")
	p.printf("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"+
		"<meta name=\"color-scheme\" content=\"light dark\">\n<title>%s</title>\n<style>%s</style>\n</head>\n<body>\n",
		sourceHash(pageStyle), sourceHash(pageScript), markdown.Escape(title), pageStyle)
	p.thread(s, true)
	p.printf("<footer>Written by segno%s. This page is one file and loads nothing.</footer>\n<script>%s</script>\n</body>\n</html>\n",
		markdown.Escape(" "+s.Version), pageScript)
	return p.err
}

// sourceHash returns the hash by which a content security policy allows an inline style or script.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// nameOfThread returns the title of a thread, or its id.
func nameOfThread(h Header) string {
	const longest = 300
	return shorten(cmp.Or(h.Title, "Thread "+string(h.Thread)), longest)
}

func (p *pageWriter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// thread writes a thread. The threads of subagents follow the first one.
func (p *pageWriter) thread(s Source, isFirst bool) {
	h := s.Header
	level := "h1"
	if !isFirst {
		level = "h2"
	}
	p.printf("<header>\n<%s>%s</%s>\n<p class=\"facts\">%s · thread <code>%s</code> · %s · %s", level, markdown.Escape(nameOfThread(h)), level,
		markdown.Escape(h.Agent), markdown.Escape(string(h.Thread)), day(h.Created), printable.Plural(h.Count, "turn"))
	if h.Fork != nil {
		p.printf(" · forked from <code>%s</code>", markdown.Escape(string(h.Fork.Thread)))
	}
	p.printf("</p>\n")
	for _, x := range h.Chain {
		p.printf("<p class=\"facts\">session <code>%s</code> %s %s</p>\n", markdown.Escape(string(x.Session)), day(x.Start), markdown.Escape(x.Reason))
	}
	if isFirst {
		p.printf("<button id=\"unfold\" hidden>Unfold all</button>\n")
	}
	p.printf("</header>\n<main>\n")
	for t, err := range s.Turns() {
		if err != nil {
			p.err = cmp.Or(p.err, err)
		}
		if p.err != nil {
			return
		}
		p.turn(t)
	}
	p.printf("</main>\n")
	for _, child := range s.Children {
		p.thread(child, false)
	}
}

func (p *pageWriter) turn(t *Turn) {
	if t.Checkpoint.Kind == segno.CheckpointBase {
		return
	}
	p.anchor++
	class := "turn"
	if t.Undone {
		class += " undone"
	}
	if !t.IsTurn() {
		class += " aside"
	}
	p.printf("<article class=\"%s\" id=\"n%d\">\n<h2><a href=\"#n%d\">%s</a>", class, p.anchor, p.anchor, markdown.Escape(t.Name))
	for _, x := range marksOf(t) {
		p.printf(" <span class=\"mark\">%s</span>", markdown.Escape(x))
	}
	p.printf("</h2>\n<p class=\"facts\">%s</p>\n", markdown.Escape(factsLine(t)))
	if t.Checkpoint.Label != "" {
		p.printf("<p>%s</p>\n", markdown.Escape(t.Checkpoint.Label))
	}
	if t.Prompt != "" {
		p.printf("<div class=\"prompt\">%s</div>\n", plain(t.Prompt))
	}
	p.pictures(t.Images)
	for i := range t.Items {
		p.item(&t.Items[i])
	}
	for _, sub := range t.Subagents {
		p.printf("<details class=\"call\"><summary>subagent <b>%s</b> <span class=\"dim\">%s</span></summary>\n", markdown.Escape(sub.ID), printable.Plural(len(sub.Calls), "call"))
		for _, c := range sub.Calls {
			p.call(c)
		}
		p.printf("</details>\n")
	}
	p.files(t)
	for _, x := range t.Missing {
		p.printf("<p class=\"missing\">Missing: %s</p>\n", markdown.Escape(x))
	}
	p.printf("</article>\n")
}

// factsLine returns the time, the agent, the model and the duration of a turn on one line.
func factsLine(t *Turn) string {
	facts := []string{day(t.End)}
	for _, x := range []string{t.Checkpoint.Agent, t.Model} {
		if x != "" {
			facts = append(facts, x)
		}
	}
	if t.IsTurn() && !t.Start.IsZero() && t.End.Sub(t.Start) >= time.Second {
		facts = append(facts, t.End.Sub(t.Start).Round(time.Second).String())
	}
	if u := history.NewUsage(t.Usage, nil); u != nil {
		facts = append(facts, u.String())
	}
	return strings.Join(facts, " · ")
}

// plain returns text as HTML that keeps line breaks.
func plain(s string) string { return "<pre>" + markdown.Escape(shorten(s, maxPageText)) + "</pre>" }

func (p *pageWriter) item(it *turns.Item) {
	switch {
	case it.Call != nil:
		p.call(it.Call)
	case it.Author == turns.Agent && it.Text != "":
		p.printf("<div class=\"answer\">%s</div>\n", markdown.HTML(shorten(it.Text, maxPageText)))
	case it.Author == turns.User && it.Text != "":
		p.printf("<div class=\"prompt\">%s</div>\n", plain(it.Text))
	case it.Text != "":
		p.printf("<p class=\"note\">%s</p>\n", markdown.Escape(shorten(it.Text, maxPageCall)))
	}
	p.pictures(it.Images)
}

func (p *pageWriter) call(c *turns.Call) {
	const subject = 160
	class := "call"
	if c.Failed {
		class += " failed"
	}
	p.printf("<details class=\"%s\"><summary><b>%s</b> <code>%s</code><span class=\"dim\">%s</span></summary>\n", class,
		markdown.Escape(shorten(c.Tool, subject)), markdown.Escape(text(c.Subject(subject))), markdown.Escape(outcome(c)))
	if len(c.Input) > len("{}") {
		p.printf("<pre>%s</pre>\n", markdown.Escape(shorten(c.InputText(), maxPageCall)))
	}
	if c.Result != "" {
		p.printf("<pre class=\"result\">%s</pre>\n", markdown.Escape(shorten(c.Result, maxPageCall)))
	}
	p.printf("</details>\n")
	p.pictures(c.Images)
}

// pictures writes images with their bytes in the page, because the page loads nothing from a URL.
func (p *pageWriter) pictures(images []turns.Image) {
	for i := range images {
		p.picture(&images[i], "image")
	}
}

func (p *pageWriter) picture(i *turns.Image, name string) {
	kind := imageType(i.Data)
	if kind == "" || len(i.Data) > maxImage || p.images+len(i.Data) > maxPageImages {
		p.printf("<p class=\"note\">image: %s, %d bytes, not shown</p>\n", markdown.Escape(cmp.Or(i.Type, "unknown type")), len(i.Data))
		return
	}
	p.images += len(i.Data)
	p.printf("<img src=\"data:%s;base64,%s\" alt=\"%s\">\n", kind, base64.StdEncoding.EncodeToString(i.Data), markdown.Escape(name))
}

// files lists the changed files, each with its diff.
func (p *pageWriter) files(t *Turn) {
	if len(t.Files) == 0 {
		return
	}
	p.printf("<section class=\"files\"><h3>%s</h3>\n", printable.Plural(len(t.Files)+t.MoreFiles, "changed file"))
	room := maxPageDiffs
	for i := range t.Files {
		p.file(&t.Files[i], &room)
	}
	if t.MoreFiles > 0 {
		p.printf("<p class=\"note\">and %d more</p>\n", t.MoreFiles)
	}
	p.printf("</section>\n")
}

func (p *pageWriter) file(f *File, room *int) {
	open := ""
	if len(f.Diff) <= maxOpenDiff {
		open = " open"
	}
	name := markdown.Escape(segno.QuotePath(f.Path))
	facts := markdown.Escape(f.Why)
	if f.Added+f.Gone > 0 {
		facts = fmt.Sprintf("<span class=\"plus\">+%d</span> <span class=\"minus\">−%d</span> %s", f.Added, f.Gone, facts)
	}
	if len(f.Diff) == 0 && f.Image == nil {
		p.printf("<p class=\"file\"><span class=\"sign\">%s</span> <code>%s</code> <span class=\"dim\">%s</span></p>\n", f.Sign, name, facts)
		return
	}
	p.printf("<details class=\"file\"%s><summary><span class=\"sign\">%s</span> <code>%s</code> <span class=\"dim\">%s</span></summary>\n", open, f.Sign, name, facts)
	if f.Image != nil {
		p.picture(f.Image, f.Path)
	}
	p.diff(f.Diff, room)
	p.printf("</details>\n")
}

// diff writes the lines of a diff. The sign of a line is text, so that screen readers read it and users can copy it.
func (p *pageWriter) diff(lines []Line, room *int) {
	if len(lines) == 0 {
		return
	}
	p.printf("<pre class=\"diff\">")
	for _, l := range lines {
		if *room -= len(l.Text); *room < 0 {
			p.printf("… the rest is left out\n")
			break
		}
		tag := map[byte]string{'+': "ins", '-': "del", '@': "i"}[l.Op]
		line := string(l.Op) + markdown.Escape(l.Text)
		if tag != "" {
			line = "<" + tag + ">" + line + "</" + tag + ">"
		}
		p.printf("%s\n", line)
	}
	p.printf("</pre>\n")
}
