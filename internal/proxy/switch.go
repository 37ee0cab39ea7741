package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// keepReachable gives the session's thread an id besides the session's own, if it has
// none: the session is about to go on with another thread, and clients only know ids.
func (s *session) keepReachable(ctx context.Context) error {
	pages, err := s.proxy.book.pages()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(pages, func(pg page) bool { return pg.Thread == s.thread && pg.Client != s.id && !pg.Deleted }) {
		return nil
	}
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return err
	}
	kept := s.page
	kept.Client, kept.Upstream = segno.SessionID(segno.NewID()), head.Link.Session
	return s.proxy.book.write(kept)
}

// standOn makes the session's id that of another thread. The agent's session follows at
// the next prompt. unheard is what the page of that thread says of its earlier turns.
func (s *session) standOn(ctx context.Context, thread segno.ThreadID, title string, unheard bool) error {
	if err := s.keepReachable(ctx); err != nil {
		return err
	}
	s.thread, s.page.Thread, s.page.Unheard, s.story, s.tell = thread, thread, unheard, nil, nil
	if title != "" {
		s.page.Title = title
	}
	return s.proxy.book.write(s.page)
}

// threads are those of the session's workspace and agent, the newest first.
func (s *session) threads(ctx context.Context) ([]segno.Thread, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	rec, err := s.proxy.store.RegisterRoot(ctx, s.page.Dir)
	if err != nil {
		return nil, err
	}
	var list []segno.Thread
	for t, err := range s.proxy.store.Threads(ctx, segno.ThreadQuery{Workspace: rec.ID, TopLevel: true}) {
		if err != nil {
			return nil, err
		}
		if t.Agent == s.page.Agent {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b segno.Thread) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// switchTo goes on with the thread that a user names by the first letters of its id, or by
// its title.
func (s *session) switchTo(ctx context.Context, name string) (segno.Thread, error) {
	var found []segno.Thread
	list, err := s.threads(ctx)
	if err != nil {
		return segno.Thread{}, err
	}
	for _, t := range list {
		if t.Title == name || len(name) >= leastLetters && strings.HasPrefix(string(t.ID), name) {
			found = append(found, t)
		}
	}
	wrong := segno.NewError(segno.KindInternal, "switch", name, nil).WithHint("Type /switch to see the threads.")
	switch {
	case s.turn != nil:
		wrong.Kind, wrong.Err, wrong.Hint = segno.KindBusy, errors.New("a turn is under way"), "Wait for its end."
		return segno.Thread{}, wrong
	case s.thread == "":
		wrong.Kind, wrong.Err, wrong.Hint = segno.KindRefused, errNoTurn, "Load the session of that thread instead."
		return segno.Thread{}, wrong
	case len(found) == 0:
		wrong.Kind, wrong.Err = segno.KindNotFound, errors.New("no thread of this agent and directory is called that")
		return segno.Thread{}, wrong
	case len(found) > 1:
		wrong.Kind, wrong.Err = segno.KindInvalid, errors.New("several threads are called that")
		return segno.Thread{}, wrong
	case found[0].ID == s.thread:
		return found[0], nil
	}
	pages, err := s.proxy.book.pages()
	if err != nil {
		return segno.Thread{}, err
	}
	title, unheard := found[0].Title, false
	if i := slices.IndexFunc(pages, func(pg page) bool { return pg.Thread == found[0].ID }); i >= 0 {
		title, unheard = pages[i].Title, pages[i].Unheard
	}
	return found[0], s.standOn(ctx, found[0].ID, title, unheard)
}

func (s *session) slashSwitch(ctx context.Context, args string) (string, error) {
	if args != "" {
		was := s.thread
		t, err := s.switchTo(ctx, args)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("This conversation is now thread %s, %q. The files stay as they are; /checkpoints lists what /restore can bring back. /switch %s returns to the thread before.",
			t.ID[:8], t.Title, was[:8]), nil
	}
	list, err := s.threads(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No thread yet: the first prompt makes one.", nil
	}
	var b strings.Builder
	for _, t := range list {
		mark := "  "
		if t.ID == s.thread {
			mark = "@ "
		}
		fmt.Fprintf(&b, "%s%s  %s  %s\n", mark, t.ID[:8], t.Created.Local().Format(time.DateTime), t.Title)
	}
	return "```\n" + b.String() + "```", nil
}
