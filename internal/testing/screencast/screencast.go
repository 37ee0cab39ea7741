// Package screencast draws a session in a terminal as an animated SVG: commands that are typed, and what they print. The image
// needs no script and no font, follows the light or dark theme of the reader, and shows the end of the session where
// animations are off.
package screencast

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Step is one command and its output.
type Step struct {
	Command string
	Output  string // the bytes that the terminal received
}

// Times in seconds.
const (
	perChar  = 0.035 // to type one character
	thinking = 0.35  // between the last character and the output
	perLine  = 0.12  // to read a line of output
	reading  = 0.45  // to read any output
	start    = 0.4   // before the first command
	end      = 2.5   // after the last output, before the animation begins again
)

// The size of a character and of the margins, in units of the image.
const (
	charWidth  = 8.4
	lineHeight = 20
	margin     = 16
	gap        = 8 // before each command but the first
	fontSize   = 14
)

// Draw returns the SVG of the steps in a terminal with a number of columns. Longer lines continue on the next line, as in a
// terminal. title describes the image for readers who do not see it.
func Draw(title string, cols int, steps []Step) ([]byte, error) {
	d := drawing{cols: cols, at: start}
	for n, s := range steps {
		d.command(s.Command)
		lines, err := parse(s.Output)
		if err != nil {
			return nil, fmt.Errorf("output %d: %w", n+1, err)
		}
		d.output(lines)
	}
	return d.svg(title), nil
}

// drawing is an image under construction.
type drawing struct {
	cols  int
	at    float64 // the time at which the next item appears
	lines int     // the number of lines so far
	y     int     // the height of everything so far, without the margin
	items []item
}

// item is a group of lines that appears at a time. A command is typed until a later time.
type item struct {
	body  string
	at    float64
	typed int // the number of characters that are typed; 0 for output
	y     int // the upper edge of the line
}

func (d *drawing) command(text string) {
	if d.lines > 0 {
		d.y += gap
	}
	typed, y := utf8.RuneCountInString(text), margin+d.y
	body := d.line([]span{{class: "p", text: "$ "}, {class: "c", text: text}})
	d.items = append(d.items, item{body: body, at: d.at, typed: typed, y: y})
	d.at += perChar*float64(typed) + thinking
}

func (d *drawing) output(lines [][]span) {
	if len(lines) == 0 {
		return
	}
	var body strings.Builder
	before := d.lines
	for _, line := range lines {
		for _, part := range wrap(line, d.cols) {
			body.WriteString(d.line(part))
		}
	}
	d.items = append(d.items, item{body: body.String(), at: d.at})
	d.at += reading + perLine*float64(d.lines-before)
}

// line returns the element of the next line.
func (d *drawing) line(spans []span) string {
	var b strings.Builder
	width := 0
	for _, s := range spans {
		width += utf8.RuneCountInString(s.text)
		if s.class == "" {
			b.WriteString(html.EscapeString(s.text))
		} else {
			fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, s.class, html.EscapeString(s.text))
		}
	}
	d.lines++
	d.y += lineHeight
	if width == 0 {
		return ""
	}
	// The length makes each font as wide as the columns.
	return fmt.Sprintf(`<text x="%d" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
		margin, margin+d.y-5, float64(width)*charWidth, b.String())
}

const style = `text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
.screen { fill: #f6f8fa; stroke: #d1d9e0 }
.cover { fill: #f6f8fa; transform-box: fill-box; transform-origin: 100%% 50%%; transform: scaleX(0) }
.p { fill: #59636e } .c { font-weight: bold } .b { font-weight: bold } .d { fill: #59636e }
.red { fill: #c01c28 } .green { fill: #1a7f37 } .yellow { fill: #8a6100 } .blue { fill: #0969da } .magenta { fill: #8250df } .cyan { fill: #0f6e7a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .screen { fill: #151b23; stroke: #3d444d } .cover { fill: #151b23 } .p, .d { fill: #9198a1 }
.red { fill: #ff7b72 } .green { fill: #3fb950 } .yellow { fill: #d29922 } .blue { fill: #58a6ff } .magenta { fill: #bc8cff } .cyan { fill: #56d4dd }
}
`

// svg returns the image. Each item has two animations over the whole time, which the browser repeats: one shows the item from its
// time on, and for a command the other makes a cover over the text narrower, character by character.
func (d *drawing) svg(title string) []byte {
	var rules, body bytes.Buffer
	total := d.at + end
	percent := func(at float64) string { return fmt.Sprintf("%.2f%%", 100*at/total) }
	for n, i := range d.items {
		fmt.Fprintf(&rules, "@keyframes s%[1]d { 0%% { opacity: 0 } %[2]s, 100%% { opacity: 1 } }\n.s%[1]d { animation: s%[1]d %.2[3]fs step-end infinite }\n",
			n, percent(i.at), total)
		fmt.Fprintf(&body, "<g class=\"s%d\">\n%s", n, i.body)
		if i.typed > 0 {
			fmt.Fprintf(&rules, "@keyframes t%[1]d { 0%%, %[2]s { transform: scaleX(1); animation-timing-function: steps(%[3]d) } %[4]s, 100%% { transform: scaleX(0) } }\n.t%[1]d { animation: t%[1]d %.2[5]fs infinite }\n",
				n, percent(i.at), i.typed, percent(i.at+perChar*float64(i.typed)), total)
			fmt.Fprintf(&body, "<rect class=\"cover t%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
				n, margin+2*charWidth, i.y, float64(i.typed)*charWidth, lineHeight)
		}
		body.WriteString("</g>\n")
	}
	width, height := float64(d.cols)*charWidth+2*margin, d.y+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0[1]f %[2]d" width="%.0[1]f" height="%[2]d" role="img" aria-labelledby="title">
<title id="title">%[3]s</title>
<style>
`, width, height, html.EscapeString(title))
	fmt.Fprintf(&b, style, fontSize)
	fmt.Fprintf(&b, "%s@media (prefers-reduced-motion: reduce) { * { animation: none !important } }\n</style>\n", rules.Bytes())
	fmt.Fprintf(&b, "<rect class=\"screen\" x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%d\" rx=\"8\"/>\n%s</svg>\n", width-1, height-1, body.Bytes())
	return b.Bytes()
}
