package searchcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/search"
)

// flags are the flags of the verb.
type flags struct {
	in, changed, deleted, line, cursor string
	all, here                          bool
	limit                              int
	wait                               time.Duration
}

func (a *app) search() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:   "search [WORD…]",
		Short: "find prompts, answers, commands, changed files and lines",
		Long: `Searches the prompts, answers and commands of all threads in the store, the best hits
first. All words must be in the same field of a turn; hits with some of them come last.

    word          also as a part of a name: limiter finds rateLimiter and rate_limiter
    src/limit.go  the parts in this order
    lim*          words that begin so
    '"a phrase"'  exactly these words
    '/re/'        a regular expression

The output of commands is searched only with --in output or --in all. --changed and
--deleted list the turns that changed a file, also by a shell command; --line lists those
that added or removed a line. --all also searches the sessions of agents on this machine.

What is new since the last search is added to an index beside the store first.`,
		Example: "  segno search rate limiter\n  segno search --deleted .env\n  segno search --line 'func limit'\n  segno search --in output '/panic: .*nil/'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return cli.Usage(err)
			}
			return a.InStore(func(ctx context.Context, store *local.Store, args []string) error {
				return a.runSearch(ctx, store, f, strings.Join(args, " "))
			})(c, args)
		},
	}
	c.Flags().StringVar(&f.in, "in", "", "search only in `FIELD`: prompt, answer, tool, output or all")
	c.Flags().StringVar(&f.changed, "changed", "", "the turns that created, changed, deleted or renamed `PATH`")
	c.Flags().StringVar(&f.deleted, "deleted", "", "the turns that deleted `PATH`, or gave it another name")
	c.Flags().StringVar(&f.line, "line", "", "the turns that added or removed a line with `TEXT`")
	c.Flags().BoolVar(&f.all, "all", false, "also search the sessions of agents that segno did not record")
	c.Flags().BoolVar(&f.here, "here", false, "search only the threads of this directory")
	c.Flags().IntVarP(&f.limit, "limit", "n", 20, "show at most `N` hits")
	c.Flags().StringVar(&f.cursor, "cursor", "", "continue at the `CURSOR` in \"next\" of an earlier result")
	c.Flags().DurationVar(&f.wait, "wait", time.Hour, "answer after `D` at the latest, also if the index is not complete then")
	fields := []string{"prompt", "answer", "tool", "output", "all"}
	cli.CompleteFlag(c, "in", cobra.FixedCompletions(fields, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (f *flags) check(args []string) error {
	asked := 0
	for _, is := range []bool{len(args) > 0, f.changed != "", f.deleted != "", f.line != ""} {
		if is {
			asked++
		}
	}
	switch {
	case asked != 1:
		return errors.New("search takes words, or one of --changed, --deleted and --line")
	case f.limit < 1 || f.limit > 1000:
		return errors.New("-n takes a number of hits from 1 to 1000")
	case f.in != "" && f.in != "all" && !slices.Contains([]search.Field{search.Prompt, search.Answer, search.Command, search.Output}, search.FieldNamed(f.in)):
		return fmt.Errorf("unknown field %q", f.in)
	case f.here && f.all:
		return errors.New("--here and --all exclude each other")
	case f.in != "" && len(args) == 0:
		return errors.New("--in needs words to search for")
	}
	return nil
}

// query returns the query of the command line.
func (a *app) query(ctx context.Context, f *flags, text string) (q search.Query, err error) {
	switch {
	case f.changed != "":
		q = search.PathQuery(a.paths(ctx, f.changed), search.Created, search.Changed, search.Deleted, search.Renamed)
	case f.deleted != "":
		q = search.PathQuery(a.paths(ctx, f.deleted), search.Deleted, search.Renamed)
	case f.line != "":
		q = search.LineQuery(f.line)
	default:
		if q, err = search.Parse(text); err != nil {
			return q, err
		}
		switch f.in {
		case "":
		case "all":
			q.Fields = append(search.Conversation(), search.Output)
		default:
			q.Fields = []search.Field{search.FieldNamed(f.in)}
		}
	}
	q.Sessions, q.Now = f.all, a.Now().Unix()
	return q, nil
}

// paths returns the paths that an argument means: in the workspace of the directory if there is one, else as it is.
func (a *app) paths(ctx context.Context, arg string) []string {
	if d, err := a.Open(ctx); err == nil {
		defer d.Close()
		if paths, err := cli.NamedPaths(d, arg); err == nil && len(paths) > 0 {
			return append(paths, arg)
		}
	}
	return []string{strings.TrimPrefix(strings.TrimSuffix(arg, "/"), "./")}
}

// result is the result of search --json.
type result struct {
	SchemaVersion int    `json:"schema_version"`
	Hits          []item `json:"hits"`
	Total         int    `json:"total"`
	// Capped means that there may be more hits than Total.
	Capped    bool      `json:"capped"`
	Next      string    `json:"next"` // the cursor of the next hits, "" at the end
	Freshness freshness `json:"freshness"`
}

type freshness struct {
	Complete bool `json:"complete"` // the index has everything
	search.Freshness
	ElapsedMS int64 `json:"elapsed_ms"` // of the search, without the update of the index
}

const schemaVersion = 1

func (a *app) runSearch(ctx context.Context, store *local.Store, f *flags, text string) error {
	first := 0
	if f.cursor != "" {
		var err error
		if first, err = strconv.Atoi(f.cursor); err != nil || first < 0 {
			return cli.Usage(fmt.Errorf("malformed cursor %q", f.cursor))
		}
	}
	q, err := a.query(ctx, f, text)
	if err != nil {
		return err
	}
	if err := a.limitThreads(ctx, store, f, &q); err != nil {
		return err
	}
	index := search.OfStore(store)
	defer index.Close()
	s := &searching{app: a, store: store, index: index, query: &q, flags: f}
	found, err := s.run(ctx, first)
	if err != nil {
		return err
	}
	res := result{SchemaVersion: schemaVersion, Hits: []item{}, Total: found.Total, Capped: found.IsCapped,
		Freshness: freshness{s.fresh.IsComplete(), s.fresh, s.took.Milliseconds()}}
	for i := range found.Hits {
		items, err := s.items(ctx, &found.Hits[i])
		if kind := segno.KindOf(err); kind == segno.KindCorrupt || kind == segno.KindNotFound {
			res.Freshness.Damaged, res.Freshness.Complete = res.Freshness.Damaged+1, false
			continue
		}
		if err != nil {
			return err
		}
		res.Hits = append(res.Hits, items...)
	}
	if next := first + len(found.Hits); len(found.Hits) == f.limit && (next < found.Total || found.IsCapped) {
		res.Next = strconv.Itoa(next)
	}
	return a.PrintLong(res, func(p *cli.Printer) { a.draw(p, &res, q.Thread) })
}

// limitThreads limits a query to the thread of --thread, and with --here to those of the directory.
func (a *app) limitThreads(ctx context.Context, store *local.Store, f *flags, q *search.Query) error {
	if a.ThreadName != "" {
		t, err := a.ThreadNamed(ctx, store, a.ThreadName)
		if err != nil {
			return err
		}
		q.Thread = t.ID
	}
	if !f.here {
		return nil
	}
	dir, err := a.WorkDir()
	if err != nil {
		return err
	}
	rec, err := store.Find(ctx, dir)
	if err != nil {
		return err
	}
	q.Threads = map[segno.ThreadID]bool{}
	for t, err := range store.Threads(ctx, segno.ThreadQuery{Workspace: rec.ID}) {
		if err != nil {
			return err
		}
		q.Threads[t.ID] = true
	}
	return nil
}

// draw prints the hits, and notes what the result lacks.
func (a *app) draw(p *cli.Printer, res *result, only segno.ThreadID) {
	for i := range res.Hits {
		a.drawHit(p, &res.Hits[i], only == "")
	}
	switch more := res.Total - len(res.Hits); {
	case len(res.Hits) == 0:
		a.Notef("nothing found")
	case res.Next != "" && res.Capped:
		a.Notef("there are more hits; --cursor %s shows the next", res.Next)
	case res.Next != "":
		a.Notef("%d more; --cursor %s shows the next", more, res.Next)
	}
	if n := res.Freshness.Pending + int64(res.Freshness.PendingSessions); n > 0 {
		a.Notef("not yet searched: %d checkpoints and sessions; search again, or give a longer --wait", n)
	}
	if n := res.Freshness.Damaged + res.Freshness.DamagedSessions; n > 0 {
		a.Notef("%d checkpoints or sessions cannot be read; run 'segno check'", n)
	}
}

func (a *app) drawHit(p *cli.Printer, x *item, withThread bool) {
	lead := a.Lead(p.Paint, x.label(), x.Time) + " "
	if withThread {
		id := cli.Short(x.Thread)
		if x.Thread == "" {
			id = cli.Short(x.Session)
		}
		lead += p.Dim(cli.Pad(id, 6)) + " "
	}
	tail := ""
	if x.Undone {
		tail += "  " + p.Dim("undone")
	}
	if len(x.Missing) > 0 {
		tail += "  " + p.Dim("without "+cli.Inline(strings.Join(x.Missing, ", ")))
	}
	what := ""
	switch {
	case x.Line != nil:
		sign := p.Added("+ ")
		if x.Line.Action == "removed" {
			sign = p.Gone("- ")
		}
		what = p.Dim(cli.QuotePath(x.Line.Path)+":"+strconv.Itoa(x.Line.Number)+" ") + sign + cli.Inline(strings.TrimSpace(x.Line.Text))
	case len(x.Touched) > 0:
		var all []string
		for _, t := range x.Touched[:min(len(x.Touched), 3)] {
			text := cli.Inline(t.String())
			if by := t.By(); by != "" {
				text += p.Dim("  by " + cli.Inline(by))
			}
			all = append(all, text)
		}
		if more := len(x.Touched) - 3; more > 0 {
			all = append(all, fmt.Sprintf("and %d more", more))
		}
		what = strings.Join(all, ", ")
	default:
		what = p.Dim(cli.Pad(x.Field, 6)) + " " + cli.Inline(x.Before) + p.Bold(cli.Inline(x.Match)) + cli.Inline(x.After)
	}
	room := p.Width()
	if room > 0 {
		room = max(1, room-cli.Visible(tail))
	}
	p.Linef("%s", p.Drawn(cli.Fit(lead+what, room)+tail))
}
