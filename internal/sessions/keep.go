package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) keep() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "keep [SESSION…]",
		Short: "store sessions that the agent may delete",
		Long: `Stores the transcripts of sessions, and the files that belong to them, so that nothing is
lost when the agent deletes them, when their directory is renamed or when the agent's home
is emptied. Each becomes a thread, without files of a workspace. A second time only what
is new is stored. If it is interrupted, what it stored so far is kept, and the next run goes
on. Sessions with recorded turns are kept at the end of each turn anyway.

'segno sessions keep' stores an agent's own session; 'segno save' makes a checkpoint of files,
and 'segno pin' names one.`,
		Example: "  segno sessions keep --all\n  segno sessions keep 0b6a1f3e\n  segno resume 0b6a1f3e",
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return cli.Usage(errors.New("keep needs SESSION or --all"))
			}
			return a.runKeep(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "keep every session on this machine")
	return c
}

// keepResult is the JSON output of segno sessions keep.
type keepResult struct {
	Kept      []keptItem `json:"kept"`      // the sessions with new records
	Unchanged int        `json:"unchanged"` // sessions that the store already had
	Empty     int        `json:"empty"`     // sessions without a conversation
	Open      int        `json:"open"`      // sessions with an open turn; the end of the turn will keep them
	Failed    []string   `json:"failed"`    // why sessions could not be kept
}

// keptItem is a session from which segno has kept new records.
type keptItem struct {
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Thread  segno.ThreadID  `json:"thread"`
	Turns   int             `json:"turns"` // new turns
	Bytes   int64           `json:"bytes"` // new bytes
	Notes   []string        `json:"notes"` // the parts that could not be kept
}

// runKeep keeps the named sessions, or all sessions if there are no names.
func (a *app) runKeep(ctx context.Context, names []string) error {
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, skipped, err := a.sessionsToKeep(ctx, store, names)
	if err != nil {
		return err
	}
	res := keepResult{Kept: []keptItem{}, Failed: []string{}}
	res.addSkipped(skipped)
	details, err := store.Place().BriefDetails(ctx, store, found)
	if err != nil {
		return err
	}
	if len(names) == 1 && len(details) == 1 && details[0].Err != nil {
		return details[0].Err
	}
	requests := res.requests(ctx, store, details, len(names) == 0)
	failed, err := a.keepRequests(ctx, store, requests, &res, len(names) == 0)
	if len(names) == 1 && len(res.Failed) > 0 {
		err = cmp.Or(err, failed)
	}
	if err != nil {
		return err
	}
	if len(names) == 1 && res.Empty == 1 {
		return segno.Errorf(segno.KindNotFound, "keep session", names[0], "it has no conversation")
	}
	if err := a.Print(res, func(p *cli.Printer) { a.writeKept(p, res) }); err != nil || len(res.Failed) == 0 {
		return err
	}
	return segno.NewError(segno.KindPartial, "", "", fmt.Errorf("%s could not be kept", cli.Plural(len(res.Failed), "session"))).
		WithHint("run 'segno sessions keep' for each of them to see why")
}

// keepRequests keeps sessions and adds the results to res. failed is the error of the last session that could not be
// kept, and err the error that ended the run.
func (a *app) keepRequests(ctx context.Context, store *local.Store, requests []timeline.KeepRequest, res *keepResult, all bool) (failed, err error) {
	done, update := 0, a.Count("keeping", "session")
	err = store.KeepSessions(ctx, requests, func(r timeline.KeepRequest, k timeline.Kept, err error) {
		failed = cmp.Or(err, failed)
		res.add(r, k, err)
		done++
		update(int64(done), int64(len(requests)))
	})
	a.Bar.Erase()
	if segno.KindOf(err) == segno.KindCancelled && all {
		err = segno.Errorf(segno.KindCancelled, "keep sessions", "", "interrupted after %d of %s", done, cli.Plural(len(requests), "session")).
			WithHint("run 'segno sessions keep --all' again to keep the others")
	}
	return failed, err
}

// sessionsToKeep returns the named sessions, or all if there are no names. skipped has an error for each
// session that cannot be read.
func (a *app) sessionsToKeep(ctx context.Context, store *local.Store, names []string) (found []local.FoundSession, skipped []error, err error) {
	place := store.Place()
	if len(names) == 0 {
		found, skipped = place.FindSessions(ctx)
		a.removeMoved(ctx, store, found)
		a.noteSkipped(skipped)
		return found, skipped, nil
	}
	for _, name := range names {
		s, err := a.SessionNamed(ctx, place, store, name)
		if err != nil {
			return nil, nil, err
		}
		if s.Path == "" {
			a.Notef("%s is kept; the agent no longer has it", cli.Inline(string(s.Session)))
			continue
		}
		found = append(found, s)
	}
	return found, nil, nil
}

// addSkipped adds the sessions that cannot be read. KindInvalid means that a file is not a session.
func (res *keepResult) addSkipped(skipped []error) {
	for _, err := range skipped {
		if segno.KindOf(err) != segno.KindInvalid {
			res.Failed = append(res.Failed, err.Error())
		}
	}
}

// requests returns the sessions that may have new records, and counts the others. A session that the user named is
// always compared with the store.
func (res *keepResult) requests(ctx context.Context, store *local.Store, details []local.SessionDetail, all bool) (out []timeline.KeepRequest) {
	for _, s := range slices.Backward(details) { // the source of a fork is older
		switch {
		case s.Err != nil:
			res.Failed = append(res.Failed, s.Err.Error())
		case s.End == 0:
			res.Empty++
		case s.Kept && !s.IsChanged && all:
			res.Unchanged++
		default:
			out = append(out, cli.KeepRequest(ctx, store, s))
		}
	}
	return out
}

// add adds the result of one session.
func (res *keepResult) add(r timeline.KeepRequest, k timeline.Kept, err error) {
	switch {
	case segno.KindOf(err) == segno.KindNotFound && err != nil:
		res.Empty++ // it has no conversation, or the agent has deleted it since the listing
		return
	case err != nil:
		res.Failed = append(res.Failed, err.Error())
		return
	case k.IsOpen:
		res.Open++
		return
	case k.Bytes == 0 && k.Turns == 0 && k.Stored == 0:
		res.Unchanged++
		return
	}
	item := keptItem{Agent: r.Agent, Session: r.Source.Session, Thread: k.Thread, Turns: k.Turns, Bytes: k.Bytes, Notes: []string{}}
	for _, d := range k.Damage {
		item.Notes = append(item.Notes, damageText(d))
	}
	res.Kept = append(res.Kept, item)
}

// damageText describes the lines of a session that keep could not store.
func damageText(d segno.Damage) string {
	if d.Line == 0 {
		return d.Why
	}
	return fmt.Sprintf("line %d is damaged: %s; 'segno sessions heal' repairs a copy of the session", d.Line, d.Why)
}

func (a *app) writeKept(p *cli.Printer, res keepResult) {
	var bytes int64
	turns := 0
	for _, k := range res.Kept {
		bytes, turns = bytes+k.Bytes, turns+k.Turns
		for _, note := range k.Notes {
			a.Notef("%s: %s", cli.Inline(string(k.Session)), cli.Inline(note))
		}
	}
	for i, text := range res.Failed {
		if i == cli.MaxListed {
			break
		}
		a.Notef("failed: %s", cli.Clean(text))
	}
	p.Linef("kept %s: %s, %s", cli.Plural(len(res.Kept), "session"), cli.Plural(turns, "new turn"), cli.Size(bytes))
	for _, other := range []struct {
		n    int
		text string
	}{{res.Unchanged, "had nothing new"}, {res.Open, "with an open turn; its end keeps it"}, {res.Empty, "without a conversation"}} {
		if other.n > 0 {
			p.Linef("  %s %s", cli.Plural(other.n, "session"), other.text)
		}
	}
}
