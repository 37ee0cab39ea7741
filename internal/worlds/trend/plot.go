// Package trend shows how the outcomes of an experiment change over its generations. It draws them as SVG for a file or
// a page, and with characters for a terminal. It also summarizes experiments for a comparison. `segno generations` and
// the page of `segno web` use it.
package trend

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/dalsegno/segno/generation"
)

// Plot is the content of a drawing: one panel for each outcome.
type Plot struct {
	Experiment string  `json:"experiment"`
	Panels     []Panel `json:"outcomes"`
}

// Panel is one outcome over the generations.
type Panel struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // by generation, and in the order of the rows within one
}

// Point is the outcome of one attempt.
type Point struct {
	Generation int                  `json:"generation"`
	Run        string               `json:"run_id"`
	Status     generation.RowStatus `json:"status"`
	Value      float64              `json:"value"`
}

// NewPlot makes the plot of the rows of an experiment.
func NewPlot(experiment string, rows []generation.Row) Plot {
	points, seen := map[string][]Point{}, map[string]bool{}
	for _, r := range rows {
		if seen[r.Run] { // all rows of an attempt have the same outcomes
			continue
		}
		seen[r.Run] = true
		for name, value := range r.Outcomes {
			points[name] = append(points[name], Point{Generation: r.Generation, Run: r.Run, Status: r.Status, Value: value})
		}
	}
	p := Plot{Experiment: experiment, Panels: []Panel{}}
	for _, name := range slices.Sorted(maps.Keys(points)) {
		slices.SortStableFunc(points[name], func(a, b Point) int { return a.Generation - b.Generation })
		p.Panels = append(p.Panels, Panel{Name: name, Points: points[name]})
	}
	return p
}

// generations returns the first and the last generation with a point.
func (p Plot) generations() (first, last int) {
	first, last = math.MaxInt, 0
	for _, panel := range p.Panels {
		for _, point := range panel.Points {
			first, last = min(first, point.Generation), max(last, point.Generation)
		}
	}
	return min(first, last), last
}

// has reports whether the drawing has an attempt with a status.
func (p Plot) has(status generation.RowStatus) bool {
	return slices.ContainsFunc(p.Panels, func(panel Panel) bool {
		return slices.ContainsFunc(panel.Points, func(point Point) bool { return point.Status == status })
	})
}

// completed returns the points that a line joins.
func (p Panel) completed() []Point {
	return slices.DeleteFunc(slices.Clone(p.Points), func(point Point) bool { return point.Status != generation.RowCompleted })
}

// axis is a scale of values with round numbers.
type axis struct {
	low, high, step float64
}

// newAxis returns an axis that has all values and about n steps.
func newAxis(points []Point, n int) axis {
	const most = math.MaxFloat64 / 16 // steps beyond it would overflow
	low, high := most, -most
	for _, p := range points {
		value := min(most, max(-most, p.Value))
		low, high = min(low, value), max(high, value)
	}
	if low > 0 && low < high/3 {
		low = 0 // a scale from zero is more honest, if it does not compress the values much
	}
	if largest := max(math.Abs(low), math.Abs(high)); high-low <= largest*1e-9 || largest < 1e-300 { // no scale shows the difference
		if low, high = low-largest/10, high+largest/10; largest < 1 {
			low, high = min(0, low), 1
		}
	}
	raw := (high - low) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, round := range []float64{1, 2, 5, 10} {
		if round*step >= raw {
			step *= round
			break
		}
	}
	return axis{low: math.Floor(low/step) * step, high: math.Ceil(high/step) * step, step: step}
}

// at returns the position of a value between 0, the low end, and 1, the high end.
func (a axis) at(value float64) float64 {
	return min(1, max(0, (value-a.low)/(a.high-a.low)))
}

// ticks returns the round values of the axis.
func (a axis) ticks() (values []float64) {
	for i := range 20 {
		value := a.low + float64(i)*a.step
		if value > a.high+a.step/2 {
			break
		}
		if math.Abs(value) < a.step/1e6 {
			value = 0 // instead of a rounding error
		}
		values = append(values, value)
	}
	return values
}

// label returns a value of the axis as text.
func (a axis) label(value float64) string {
	if most := max(math.Abs(a.low), math.Abs(a.high)); most >= 1e7 || a.step < 1e-4 {
		return strconv.FormatFloat(value, 'g', 4, 64)
	}
	return strconv.FormatFloat(value, 'f', max(0, -int(math.Floor(math.Log10(a.step)))), 64)
}

// generationLabels returns the generations that get labels: at most n, at a round distance.
func generationLabels(first, last, n int) (all []int) {
	for scale := 1; ; scale *= 10 {
		for _, round := range []int{1, 2, 5} {
			step := round * scale
			if (last-first)/step >= n {
				continue
			}
			for g := (first + step - 1) / step * step; g <= last; g += step {
				all = append(all, g)
			}
			return all
		}
	}
}
