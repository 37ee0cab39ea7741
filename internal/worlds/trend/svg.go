package trend

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/dalsegno/segno/generation"
)

// The measures of the drawing, in pixels.
const (
	svgWidth     = 720
	headHeight   = 64
	panelHeight  = 190
	plotTop      = 30 // within a panel, below the name of the outcome
	plotHeight   = 120
	plotLeft     = 80
	plotRight    = 24
	footHeight   = 12
	maxTextDots  = 60 // per line; more dots would hide the line
	valueSteps   = 4
	labelsOfAxis = 14
)

// svgStyle has colours for light and dark surroundings. The drawing has its own background, so that no page
// can make the text unreadable.
const svgStyle = `
text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-weight:600;font-size:16px}.name{font-weight:600}.axis{fill:#57606a;font-size:12px}
.back{fill:#fff}.grid{stroke:#d8dee4;fill:none}.frame{stroke:#8c959f;fill:none}
.line{stroke:#0969da;stroke-width:2;fill:none;stroke-linejoin:round}
.completed{fill:#0969da;stroke:none}.superseded{fill:none;stroke:#6e7781;stroke-width:1.5}.failed{fill:none;stroke:#cf222e;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.axis{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#2a313c}.frame{stroke:#656c76}
.line{stroke:#58a6ff}.completed{fill:#58a6ff}.superseded{stroke:#9198a1}.failed{stroke:#ff7b72}}
`

// SVG returns the drawing as a complete file, which needs no font and no script.
func (p Plot) SVG() []byte {
	d := &drawing{}
	d.first, d.last = p.generations()
	height := headHeight + len(p.Panels)*panelHeight + footHeight
	if len(p.Panels) == 0 {
		height += 40
	}
	title := p.Experiment + ": outcomes over generations"
	d.writef(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title">`, svgWidth, height, svgWidth, height)
	d.writef(`<title id="title">%s</title><style>%s</style>`, escapeXML(title), svgStyle)
	d.writef(`<rect class="back" width="%d" height="%d"/><text class="head" x="16" y="26">%s</text>`, svgWidth, height, escapeXML(title))
	d.legend(p)
	if len(p.Panels) == 0 {
		d.text("axis", "start", 16, headHeight+20, "no attempt is over yet, or the world has no outcomes")
	}
	for i, panel := range p.Panels {
		d.panel(panel, float64(headHeight+i*panelHeight))
	}
	d.writef(`</svg>`)
	return []byte(d.b.String())
}

// escapeXML escapes a text for XML and replaces control characters: a run's name comes from a file, and no
// reader accepts a document with a control character.
func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a write to a builder does not fail
	return b.String()
}

// drawing is an SVG that is being written.
type drawing struct {
	b           strings.Builder
	first, last int // generations
}

func (d *drawing) writef(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(class, anchor string, x, y float64, text string) {
	d.writef(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, escapeXML(text))
}

// legend explains the marks in the drawing.
func (d *drawing) legend(p Plot) {
	x := 22.0
	for _, status := range []generation.RowStatus{generation.RowCompleted, generation.RowSuperseded, generation.RowFailed} {
		if p.has(status) {
			d.mark(status, x, 46, "")
			d.text("axis", "start", x+10, 50, string(status))
			x += 100
		}
	}
}

// mark draws an attempt at one position. A viewer shows about when the pointer is on the mark.
func (d *drawing) mark(status generation.RowStatus, x, y float64, about string) {
	if about != "" {
		about = "<title>" + escapeXML(about) + "</title>"
	}
	switch status {
	case generation.RowFailed:
		d.writef(`<path class="failed" d="M%.1f %.1fl8 8m0 -8l-8 8">%s</path>`, x-4, y-4, about)
	case generation.RowSuperseded:
		d.writef(`<circle class="superseded" cx="%.1f" cy="%.1f" r="4.5">%s</circle>`, x, y, about)
	default:
		d.writef(`<circle class="completed" cx="%.1f" cy="%.1f" r="4">%s</circle>`, x, y, about)
	}
}

// panel draws one outcome. top is the position of its name.
func (d *drawing) panel(p Panel, top float64) {
	a := newAxis(p.Points, valueSteps)
	low := top + plotTop + plotHeight
	y := func(value float64) float64 { return low - a.at(value)*plotHeight }
	d.text("name", "start", plotLeft, top+18, p.Name)
	for _, value := range a.ticks() {
		d.writef(`<path class="grid" d="M%d %.1fH%d"/>`, plotLeft, y(value), svgWidth-plotRight)
		d.text("axis", "end", plotLeft-8, y(value)+4, a.label(value))
	}
	d.writef(`<path class="frame" d="M%d %.1fV%.1fH%d"/>`, plotLeft, top+plotTop, low, svgWidth-plotRight)
	for _, g := range generationLabels(d.first, d.last, labelsOfAxis) {
		d.text("axis", "middle", d.x(g), low+17, fmt.Sprint(g))
	}
	d.text("axis", "end", svgWidth-plotRight, low+32, "generation")
	line := p.completed()
	var path strings.Builder
	for i, point := range line {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], d.x(point.Generation), y(point.Value))
	}
	if len(line) > 1 {
		d.writef(`<path class="line" d="%s"/>`, path.String())
	}
	for _, point := range p.Points {
		if point.Status == generation.RowCompleted && len(line) > maxTextDots {
			continue
		}
		d.mark(point.Status, d.x(point.Generation), y(point.Value), fmt.Sprintf("%s %s: %s %g", point.Run, point.Status, p.Name, point.Value))
	}
}

// x returns the position of a generation. A single generation is in the middle.
func (d *drawing) x(g int) float64 {
	const inset = 20
	at := 0.5
	if d.last > d.first {
		at = float64(g-d.first) / float64(d.last-d.first)
	}
	return plotLeft + inset + at*(svgWidth-plotLeft-plotRight-2*inset)
}
