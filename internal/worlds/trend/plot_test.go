package trend_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/worlds/trend"
	"github.com/dalsegno/segno/world"
)

// row is one agent's row of an attempt.
func row(g, attempt int, status generation.RowStatus, caught float64) generation.Row {
	return generation.Row{Generation: g, Run: fmt.Sprintf("pond-g%03d-a%d", g, attempt), Status: status, Outcomes: world.Outcomes{"caught": caught, "fish": 3}}
}

func rows() []generation.Row {
	return []generation.Row{
		row(1, 1, generation.RowFailed, 10), row(1, 2, generation.RowCompleted, 40), row(1, 2, generation.RowCompleted, 40),
		row(2, 1, generation.RowSuperseded, 25), row(2, 2, generation.RowCompleted, 61), row(3, 1, generation.RowCompleted, 90),
	}
}

// TestText checks that the drawing has each attempt once, by generation, with labels of the values and the
// generations.
func TestText(t *testing.T) {
	got := strings.Join(trend.NewPlot("commons", rows()).Text(60), "\n")
	for _, text := range []string{"caught\n", "fish\n", "       100 ┤", "        50 ┤", "         0 ┤", "● completed  ○ superseded  × failed"} {
		if !strings.Contains(got, text) {
			t.Errorf("%q is not in\n%s", text, got)
		}
	}
	caught, _, _ := strings.Cut(got, "fish\n")
	for glyph, n := range map[string]int{"●": 3, "○": 1, "×": 1} {
		if strings.Count(caught, glyph) != n {
			t.Errorf("%s is not there %d times:\n%s", glyph, n, got)
		}
	}
}

// TestSVG checks that the document is valid for a browser and has a mark for each attempt.
func TestSVG(t *testing.T) {
	svg := string(trend.NewPlot("commons", rows()).SVG())
	checkXML(t, svg)
	for text, n := range map[string]int{
		`class="completed"`: 1 + 2*3, `class="superseded"`: 1 + 2, `class="failed"`: 1 + 2, // in the legend, and in each panel
		`class="line"`: 2, ">generation</text>": 2, ">caught</text>": 1, "pond-g002-a1 superseded: caught 25": 1, "prefers-color-scheme:dark": 1,
	} {
		if strings.Count(svg, text) != n {
			t.Errorf("%q is there %d times, want %d", text, strings.Count(svg, text), n)
		}
	}
}

func checkXML(t interface{ Errorf(string, ...any) }, svg string) {
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%v in\n%s", err, svg)
			return
		}
	}
}

// TestEmpty draws an experiment without outcomes.
func TestEmpty(t *testing.T) {
	p := trend.NewPlot("<none>", []generation.Row{{Generation: 1, Run: "a"}})
	checkXML(t, string(p.SVG()))
	if diff := cmp.Diff([]trend.Panel{}, p.Panels); diff != "" {
		t.Error(diff)
	}
	p.Text(80)
}

// TestHostileNames draws attempts whose names are markup and bytes that XML does not allow.
func TestHostileNames(t *testing.T) {
	rows := rows()
	rows[0].Run = "<script>\x1b[31m\x00\xff\uffff</title>\"'"
	svg := string(trend.NewPlot("</title><script>\x07", rows).SVG())
	checkXML(t, svg)
	if strings.Contains(svg, "<script") {
		t.Errorf("a name became markup:\n%s", svg)
	}
}

// TestAnyValues draws arbitrary finite numbers in arbitrary generations.
func TestAnyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []generation.Row
		statuses := []generation.RowStatus{generation.RowCompleted, generation.RowFailed, generation.RowSuperseded}
		extreme := rapid.SampledFrom([]float64{0, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e16, 1e16 + 2, -1e-300})
		for i := range rapid.IntRange(1, 40).Draw(t, "rows") {
			value := rapid.OneOf(rapid.Float64(), extreme, rapid.Float64Range(0, 100)).Draw(t, "value")
			all = append(all, row(rapid.IntRange(1, 999).Draw(t, "generation"), i, rapid.SampledFrom(statuses).Draw(t, "status"), value))
		}
		p := trend.NewPlot("any", all)
		svg := string(p.SVG())
		checkXML(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("a place is not a number:\n%s", svg)
		}
		width := rapid.IntRange(0, 200).Draw(t, "width")
		lines := p.Text(width)
		for _, line := range lines[:len(lines)-1] { // the last one is the legend
			if n := utf8.RuneCountInString(line); n > max(width, 40)+len("9999") {
				t.Errorf("a line has %d characters:\n%s", n, line)
			}
		}
	})
}
