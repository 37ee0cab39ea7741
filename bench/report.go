package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report has the results of a run.
type report struct {
	Machine machine `json:"machine"`
	Trees   []*tree `json:"trees"`
	Rows    []row   `json:"rows"`
	// Failed has the sections that did not complete.
	Failed []failure `json:"failed,omitempty"`
	// NotRun has measurements that this machine does not allow, with the reason.
	NotRun []string `json:"not_run,omitempty"`
}

// failure is a section that failed.
type failure struct {
	Section string `json:"section"`
	Error   string `json:"error"`
}

// row is one measurement.
type row struct {
	Tree   string  `json:"tree,omitempty"`
	What   string  `json:"what"`
	N      int     `json:"n"`
	Median float64 `json:"median_ms"`
	Min    float64 `json:"min_ms"`
	Max    float64 `json:"max_ms"`
	Memory float64 `json:"memory_mb,omitempty"` // the peak of the process, if one process does the work
	Claims []claim `json:"claims,omitempty"`
}

// claim compares a row with another row of the same run and, if there is a limit, with that
// limit.
type claim struct {
	Value float64 `json:"value"`
	Of    string  `json:"of"`             // "× the walk"
	Most  float64 `json:"most,omitempty"` // the limit: Value must be at most, or at least, this
	Least float64 `json:"least,omitempty"`
	OK    *bool   `json:"ok,omitempty"` // nil if there is no limit
}

func is(value float64, of string) claim { return claim{Value: value, Of: of} }

func atMost(bar, value float64, of string) claim {
	ok := value <= bar
	return claim{Value: value, Of: of, Most: bar, OK: &ok}
}

func atLeast(bar, value float64, of string) claim {
	ok := value >= bar
	return claim{Value: value, Of: of, Least: bar, OK: &ok}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) add(tree, what string, s sample, claims ...claim) {
	var low, high time.Duration
	for i, d := range s {
		if i == 0 || d < low {
			low = d
		}
		high = max(high, d)
	}
	b.report.Rows = append(b.report.Rows, row{Tree: tree, What: what, N: len(s), Median: milliseconds(s.median()),
		Min: milliseconds(low), Max: milliseconds(high), Claims: claims})
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// writeTable writes Markdown that is also readable as plain text.
func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	for _, t := range r.Trees {
		fmt.Fprintln(w, t)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, "| tree\t| what\t| n\t| median ms\t| min–max\t| MB\t| ratio\t| bar\t| \t|")
	fmt.Fprintln(tw, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, row := range r.Rows {
		claims := row.Claims
		if len(claims) == 0 {
			claims = []claim{{}}
		}
		for i, c := range claims {
			if i == 0 {
				memory := ""
				if row.Memory > 0 {
					memory = digits(row.Memory)
				}
				fmt.Fprintf(tw, "| %s\t| %s\t| %d\t| %s\t| %s–%s\t| %s\t%s\n", row.Tree, row.What, row.N,
					digits(row.Median), digits(row.Min), digits(row.Max), memory, c)
			} else {
				fmt.Fprintf(tw, "| \t| \t| \t| \t| \t| \t%s\n", c)
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, what := range r.NotRun {
		if _, err := fmt.Fprintf(w, "\nnot run: %s\n", what); err != nil {
			return err
		}
	}
	for _, f := range r.Failed {
		if _, err := fmt.Fprintf(w, "\n%s failed: %s\n", f.Section, f.Error); err != nil {
			return err
		}
	}
	return nil
}

// String returns the last three columns of a row.
func (c claim) String() string {
	if c.Of == "" {
		return "| \t| \t| \t|"
	}
	bar, verdict := "", ""
	switch {
	case c.OK == nil:
	case c.Most != 0:
		bar = fmt.Sprintf("≤ %v", c.Most)
	default:
		bar = fmt.Sprintf("≥ %v", c.Least)
	}
	if c.OK != nil {
		if verdict = "over"; *c.OK {
			verdict = "ok"
		}
	}
	return fmt.Sprintf("| %s %s\t| %s\t| %s\t|", digits(c.Value), c.Of, bar, verdict)
}

// digits prints three significant digits.
func digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1 || v <= 0:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}
