package trend

import (
	"fmt"
	"math"
	"strings"

	"github.com/dalsegno/segno/generation"
)

const (
	textRows    = 9  // the rows of a panel
	leastWidth  = 40 // the minimal width of a drawing, in columns
	valuesWidth = 10 // the width of the values beside the drawing
)

// Text returns the drawing as lines of at most width columns. Braille characters draw the line, with two by four dots each.
func (p Plot) Text(width int) (lines []string) {
	first, last := p.generations()
	columns := max(width, leastWidth) - valuesWidth - 3 - len(" generation")
	// One column is enough for two generations, and more than eight columns per generation show nothing more.
	c := &canvas{first: first, last: last, columns: min(columns, max(8*(last-first)+1, len("generation")))}
	for _, panel := range p.Panels {
		lines = append(lines, c.draw(panel)...)
		lines = append(lines, "")
	}
	var legend []string
	for _, status := range []generation.RowStatus{generation.RowCompleted, generation.RowSuperseded, generation.RowFailed} {
		if p.has(status) {
			legend = append(legend, fmt.Sprintf("%c %s", glyph(status), status))
		}
	}
	return append(lines, strings.Repeat(" ", valuesWidth+3)+strings.Join(legend, "  "))
}

// glyph is the mark of an attempt.
func glyph(status generation.RowStatus) rune {
	switch status {
	case generation.RowFailed:
		return '×'
	case generation.RowSuperseded:
		return '○'
	}
	return '●'
}

// canvas is the drawing area of one panel.
type canvas struct {
	first, last, columns int
	cells                [textRows][]rune
}

// column returns the column of a generation.
func (c *canvas) column(g int) float64 {
	if c.last == c.first {
		return 0
	}
	return float64(g-c.first) / float64(c.last-c.first) * float64(c.columns-1)
}

// draw returns the lines of one panel.
func (c *canvas) draw(p Panel) (lines []string) {
	for i := range c.cells {
		c.cells[i] = []rune(strings.Repeat(" ", c.columns))
	}
	a := newAxis(p.Points, valueSteps)
	row := func(value float64) float64 { return (1 - a.at(value)) * (textRows - 1) }
	line := p.completed()
	for i := 1; i < len(line); i++ {
		c.line(c.column(line[i-1].Generation), row(line[i-1].Value), c.column(line[i].Generation), row(line[i].Value))
	}
	for _, status := range []generation.RowStatus{generation.RowFailed, generation.RowSuperseded, generation.RowCompleted} { // the last is on top
		for _, point := range p.Points {
			if point.Status == status && (status != generation.RowCompleted || len(line) <= c.columns/2) {
				c.cells[int(math.Round(row(point.Value)))][int(math.Round(c.column(point.Generation)))] = glyph(status)
			}
		}
	}
	labels := map[int]string{}
	for _, value := range a.ticks() {
		labels[int(math.Round(row(value)))] = a.label(value)
	}
	lines = append(lines, p.Name)
	for i, cells := range c.cells {
		edge := '│'
		if labels[i] != "" {
			edge = '┤'
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%*s %c %s", valuesWidth, labels[i], edge, string(cells)), " "))
	}
	lines = append(lines, strings.Repeat(" ", valuesWidth+1)+"└"+strings.Repeat("─", c.columns+1))
	return append(lines, strings.Repeat(" ", valuesWidth+3)+c.generationLabels())
}

// generationLabels is the line below the panel. If there is room, it ends with the name of the axis.
func (c *canvas) generationLabels() string {
	const last = len("9999 generation") // the longest label of the last column
	line := []rune(strings.Repeat(" ", c.columns+last))
	end := 0
	for _, g := range generationLabels(c.first, c.last, max(1, c.columns/5)) {
		at := int(math.Round(c.column(g)))
		text := []rune(fmt.Sprint(g))
		copy(line[at:], text)
		end = at + len(text)
	}
	copy(line[end+1:], []rune("generation"))
	return strings.TrimRight(string(line), " ")
}

// line draws a straight line between two cells.
func (c *canvas) line(x0, y0, x1, y1 float64) {
	steps := int(max(2*(x1-x0), 4*math.Abs(y1-y0))) + 1
	for i := range steps + 1 {
		at := float64(i) / float64(steps)
		c.dot(x0+(x1-x0)*at, y0+(y1-y0)*at)
	}
}

// dot draws one dot. An integer coordinate is the middle of a cell.
func (c *canvas) dot(x, y float64) {
	column, row := int(math.Round(x)), int(math.Round(y))
	right := min(1, max(0, int((x-float64(column)+0.5)*2)))
	down := min(3, max(0, int((y-float64(row)+0.5)*4)))
	bits := [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}} // the order of Braille characters
	cell := &c.cells[row][column]
	if *cell == ' ' {
		*cell = 0x2800
	}
	*cell |= bits[down][right]
}
