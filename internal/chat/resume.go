package chat

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// Resumption is a command that continues a conversation, and the directory to run it in.
type Resumption struct {
	Dir     string
	Session segno.SessionID
	Command []string
}

// Resume returns the command that continues a thread at a checkpoint: a session of its agent, or a chat in dir.
// store is the directory of the store, or "" for the default.
func Resume(ctx context.Context, tl *timeline.Timeline, dir, store string, thread segno.ThreadID, at segno.CommitID) (r Resumption, err error) {
	isOwn, err := isOwnThread(ctx, tl.Store, thread)
	if err != nil {
		return r, err
	}
	other, err := OtherAgent(ctx, tl.Store, at)
	if err != nil {
		return r, err
	}
	if !isOwn || other != "" {
		link, run, err := tl.Resume(ctx, thread, at)
		if err != nil {
			return r, err
		}
		return Resumption{Dir: link.Dir, Session: link.Session, Command: run}, nil
	}
	head, err := tl.Store.Head(ctx, thread)
	if err != nil {
		return r, err
	}
	if inClient, err := Client(ctx, tl.Store, thread); err != nil {
		return r, err
	} else if inClient {
		hint := "continue in the client"
		if id := string(head.Link.Session); id != "" {
			hint += ", where it is session " + id
		}
		return r, segno.Errorf(segno.KindRefused, "resume", string(thread), "the conversation belongs to an ACP client").WithHint(hint)
	}
	if head.Head != at {
		return r, segno.Errorf(segno.KindRefused, "resume", string(at), "a chat can continue only at the head of its thread").
			WithHint("run 'segno restore " + printable.Short(at) + "' first")
	}
	return Resumption{Dir: dir, Session: segno.SessionID(thread), Command: Command(store, thread)}, nil
}

// isOwnThread reports whether the store has a thread of segno's own agent with this id.
func isOwnThread(ctx context.Context, store segno.Store, id segno.ThreadID) (bool, error) {
	t, _, err := segno.FindThread(ctx, store, id)
	return t.Agent == Name, err
}
