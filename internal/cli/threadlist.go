package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// knownThread is a thread as a hint names it.
type knownThread struct {
	id   string // for --thread
	text string
}

// maxListed is how many threads a hint names.
const maxListed = 3

// knownThreads returns the most recently changed threads of a query that want accepts;
// turn is the number of a thread's newest turn. The text of a thread of another
// directory names the directory.
func (a *app) knownThreads(ctx context.Context, store *local.Store, q segno.ThreadQuery, want func(t segno.Thread, turn int) bool) (known []knownThread, err error) {
	for t, err := range store.Threads(ctx, q) {
		if err != nil {
			return nil, err
		}
		head, err := store.Head(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		if !want(t, head.Turn) {
			continue
		}
		k := knownThread{id: shellQuote(short(segno.CommitID(t.ID)))}
		k.text = fmt.Sprintf("%s (t%d, %s", k.id, head.Turn, chat.Age(a.now().Sub(t.Created)))
		if title := timeline.Title(t.Title); title != "" {
			k.text += ", " + quote(fit(title, 40))
		}
		if q.Workspace == "" {
			if rec, err := store.Workspace(ctx, t.Workspace); err == nil {
				k.text += ", " + quotePath(rec.Path)
			}
		}
		k.text += ")"
		if known = append(known, k); len(known) > maxListed {
			break
		}
	}
	return known, nil
}

// joinThreads names threads in a hint.
func joinThreads(known []knownThread) string {
	var names []string
	for i, k := range known {
		if i == maxListed {
			return strings.Join(names, ", ") + " and more ('segno threads' lists them)"
		}
		names = append(names, k.text)
	}
	return strings.Join(names, ", ")
}

// addOtherThreads adds the threads of other directories to the error of a directory that
// segno does not know.
func (a *app) addOtherThreads(ctx context.Context, store *local.Store, err error) error {
	all := func(segno.Thread, int) bool { return true }
	known, listErr := a.knownThreads(ctx, store, segno.ThreadQuery{TopLevel: true}, all)
	if listErr != nil || len(known) == 0 {
		return err
	}
	return segno.NewError(segno.KindNotFound, "", "", err).WithHint(fmt.Sprintf("threads of other directories: %s; use --thread %s or -C DIR, or run 'segno enable claude' here", joinThreads(known), known[0].id))
}
