package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// Size formats a number of bytes with a unit, as "1.5 MiB".
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB"}
	for ; value >= 1<<10 && len(units) > 1; units = units[1:] {
		value /= 1 << 10
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// Plural formats a count with its noun: "1 file", "2 files".
func Plural(n int, thing string) string { return printable.Plural(n, thing) }

// Files returns a number of files with its noun.
func Files(n int) string { return Plural(n, "file") }

// Now is the time that ages in the output are relative to.
func (a *App) Now() time.Time { return time.Now() }

// When formats a time in the user's time zone.
func (a *App) When(t time.Time) string { return t.In(a.Now().Location()).Format("2006-01-02 15:04") }

// Lead is the beginning of a line in a list: a name and an age.
func (a *App) Lead(p Paint, name string, t time.Time) string {
	return p.Bold(Pad(name, 6)) + " " + p.Dim(Pad(printable.Age(a.Now().Sub(t)), 4))
}

// Counts formats the counts as ~modified +added -deleted and leaves out zeros.
func Counts(n segno.Counts) string { return printable.Counts(n) }

// Until formats the time until a moment, in days.
func (a *App) Until(at time.Time) string {
	switch days := int(at.Sub(a.Now()) / (24 * time.Hour)); {
	case at.Before(a.Now()):
		return "any time"
	case days == 0:
		return "within a day"
	default:
		return "in " + Plural(days, "day")
	}
}

// DueWithin is the time before an agent deletes a session in which segno warns.
const DueWithin = 7 * 24 * time.Hour

// MaxListed is the number of threads in a hint.
const MaxListed = 3

// ListForHint names the most recently changed threads of a query for which accept is true. It also
// returns the value of --thread for the first of them. Both results are "" if there is no such
// thread. turn is the number of a thread's newest turn. If the query has no workspace, the list
// includes the directories.
func (a *App) ListForHint(ctx context.Context, store *local.Store, q segno.ThreadQuery,
	accept func(t segno.Thread, turn int) bool) (list, first string, err error) {
	var names []string
	for t, err := range store.Threads(ctx, q) {
		if err != nil {
			return "", "", err
		}
		head, err := store.Head(ctx, t.ID)
		if err != nil {
			return "", "", err
		}
		if !accept(t, head.Turn) {
			continue
		}
		if len(names) == MaxListed {
			return strings.Join(names, ", ") + " and more ('segno threads' lists them)", first, nil
		}
		id := ShellQuote(Short(t.ID))
		text := fmt.Sprintf("%s (t%d, %s", id, head.Turn, printable.Age(a.Now().Sub(t.Created)))
		if title := timeline.Title(t.Title); title != "" {
			text += ", " + Quote(Fit(title, 40))
		}
		if q.Workspace == "" {
			if rec, err := store.Workspace(ctx, t.Workspace); err == nil {
				text += ", " + QuotePath(rec.Path)
			}
		}
		names, first = append(names, text+")"), cmp.Or(first, id)
	}
	return strings.Join(names, ", "), first, nil
}
