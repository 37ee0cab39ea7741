package historycmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

func (a *app) usage() *cobra.Command {
	var all bool
	var prices string
	c := &cobra.Command{
		Use:   "usage",
		Short: "the tokens and the cost of each turn, and of the thread",
		Long: `Shows what each turn of the thread used, undone ones too, and the sum. With --all it shows
the sum of each thread in the store.

The numbers are those in the agent's own transcript: tokens of whole prompts, how many of
them the provider had cached, and tokens of answers. Subagents of Claude Code are counted
in the turn that began them. A number that the agent does not record is unknown ("—").

A cost is shown if the agent recorded it. --prices gives prices for other calls, in US dollars
for a million tokens: {"claude-opus-*": {"input": 5, "output": 25, "cache_read": 0.5}}.`,
		Example: "  segno usage\n  segno usage --json --prices prices.json\n  segno usage --all\n  segno log --usage",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := readPrices(prices)
			if err != nil {
				return err
			}
			if all {
				return a.InStore(func(ctx context.Context, s *local.Store, _ []string) error { return a.runUsageOfAll(ctx, s, p) })(c, args)
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, _ []string) error { return a.runUsage(ctx, d, p) })(c, args)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show the sum of each thread in the store")
	c.Flags().StringVar(&prices, "prices", "", "price calls without a recorded cost by the prices in `FILE`")
	return c
}

const pricesHint = "'segno help usage' has an example of such a file"

func readPrices(file string) (history.Prices, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, segno.NewError(segno.KindNotFound, "read prices", file, nil).WithHint(pricesHint)
	}
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err // file names the path
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read prices", file, err)
	}
	p, err := history.ParsePrices(data)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "read prices", file, err).WithHint(pricesHint)
	}
	return p, nil
}

// readUsage reads what checkpoints used. What is damaged is only a note, because the rest is still true.
func (a *app) readUsage(ctx context.Context, store *local.Store, h *history.History, of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
	r := history.UsageReader{Source: &turns.Source{Store: store, Transcripts: store.Transcripts()}}
	used, err := r.Read(ctx, h, of)
	if kind := segno.KindOf(err); err != nil && (kind == segno.KindCorrupt || kind == segno.KindNotFound) {
		a.Notef("the tokens of some turns cannot be read: %s", cli.Clean(err.Error()))
		err = nil
	}
	return used, err
}

// threadUsage is an element of usage --all --json. The result of usage --json also has the turns.
type threadUsage struct {
	Thread  segno.ThreadID `json:"thread"`
	Title   string         `json:"title"`
	Agent   string         `json:"agent"`
	Usage   *history.Usage `json:"usage"`   // the sum; null if nothing is known
	Unknown int            `json:"unknown"` // the number of turns without a recorded number
	newest  time.Time
}

type turnUsage struct {
	ID      segno.CommitID  `json:"id"`
	Turn    int             `json:"turn"`
	Time    time.Time       `json:"time"`
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Prompt  string          `json:"prompt"` // its beginning
	Usage   *history.Usage  `json:"usage"`

	checkpoint segno.Checkpoint
}

// usageOf reads a thread's turns, oldest first, and their sum.
func (a *app) usageOf(ctx context.Context, store *local.Store, id segno.ThreadID, prices history.Prices) (out threadUsage, all []turnUsage, err error) {
	t, _, err := segno.FindThread(ctx, store, id)
	if err != nil {
		return out, nil, err
	}
	h, err := history.Read(ctx, store, id)
	if err != nil {
		return out, nil, err
	}
	of, used, err := h.ReadOwn(id, func(of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
		return a.readUsage(ctx, store, h, of)
	})
	if err != nil {
		return out, nil, err
	}
	out.Thread, out.newest, all = id, t.Created, []turnUsage{}
	out.Title, out.Agent = history.Cut(timeline.Title(t.Title), maxUsageTitle), t.Agent
	for i := range of {
		c := &of[i]
		x := turnUsage{ID: c.ID, Turn: c.Turn, Time: c.Time, Agent: c.Agent, Prompt: history.Cut(timeline.Title(c.Prompt), maxUsageTitle),
			Usage: history.NewUsage(used[c.ID], prices), checkpoint: *c}
		if c.Session != nil {
			x.Session = c.Session.Session
		}
		if x.Usage == nil {
			out.Unknown++
		}
		out.Usage, out.newest = out.Usage.Add(x.Usage), c.Time
		all = append(all, x)
	}
	return out, all, nil
}

// maxUsageTitle is the number of bytes of a title or a prompt.
const maxUsageTitle = 200

func (a *app) runUsage(ctx context.Context, d *cli.Workspace, prices history.Prices) error {
	id, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	sum, all, err := a.usageOf(ctx, d.Store, id, prices)
	if err != nil {
		return err
	}
	result := struct {
		threadUsage
		Turns []turnUsage `json:"turns"`
	}{sum, all}
	return a.PrintLong(result, func(p *cli.Printer) {
		for _, t := range all {
			writeUsageLine(p, a.Lead(p.Paint, cli.Label(&t.checkpoint), t.Time), t.Usage, t.Prompt)
		}
		writeSum(p, sum.Usage, sum.Unknown)
	})
}

// writeUsageLine writes the line of a turn or of a thread. The title is cut to the width of the terminal.
func writeUsageLine(p *cli.Printer, lead string, u *history.Usage, title string) {
	line := lead + " " + cli.Pad(u.String(), 36) + "  "
	width := 60
	if p.Width() > 0 {
		width = min(width, max(1, p.Width()-cli.Visible(line)))
	}
	p.Linef("%s", p.Drawn(line+p.Dim(cli.Fit(cli.Inline(title), width))))
}

func writeSum(p *cli.Printer, u *history.Usage, unknown int) {
	line := p.Bold(cli.Pad("sum", 11)) + " " + p.Bold(u.String())
	if unknown > 0 {
		line += ", and " + cli.Plural(unknown, "turn") + " without a record"
	}
	p.Linef("%s", p.Drawn(line))
}

func (a *app) runUsageOfAll(ctx context.Context, store *local.Store, prices history.Prices) error {
	all := struct {
		Threads []threadUsage  `json:"threads"`
		Usage   *history.Usage `json:"usage"`
		Unknown int            `json:"unknown"`
	}{Threads: []threadUsage{}}
	for t, err := range store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			return err
		}
		x, _, err := a.usageOf(ctx, store, t.ID, prices)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		all.Threads, all.Usage, all.Unknown = append(all.Threads, x), all.Usage.Add(x.Usage), all.Unknown+x.Unknown
	}
	return a.PrintLong(all, func(p *cli.Printer) {
		for _, t := range all.Threads {
			writeUsageLine(p, a.Lead(p.Paint, cli.Short(t.Thread), t.newest), t.Usage, t.Title)
		}
		writeSum(p, all.Usage, all.Unknown)
	})
}
