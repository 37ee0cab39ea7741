package transfer_test

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transfer"
)

// contended is a store in which another writer moves the head of a thread before each commit of a copy.
type contended struct {
	*side
	thread segno.ThreadID
}

// Commit implements [segno.Store].
func (s contended) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if c.Thread == s.thread && c.IsNode() {
		h := s.head(s.thread)
		s.commit(segno.Commit{Thread: s.thread, Parent: h.Head, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Time: began}}, "")
	}
	return s.side.Commit(ctx, c)
}

// TestACopyReportsACommitThatItCouldNotMake copies a thread while another writer moves its head in the target at each try. The copy ends with
// an error: without the commit, it has copied nothing.
func TestACopyReportsACommitThatItCouldNotMake(t *testing.T) {
	from, to := newMemory(t, "from"), newMemory(t, "to")
	from.begin("t")
	if _, err := transfer.Copy(t.Context(), from, to, "t", transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	head := from.commit(segno.Commit{Thread: "t", Parent: from.head("t").Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Time: began}}, "the newest state")
	done, err := transfer.Copy(t.Context(), from, contended{to, "t"}, "t", transfer.Options{})
	_, missing := to.Load(t.Context(), head.Head, segno.Window{Last: 1})
	if err == nil && missing != nil {
		t.Errorf("the copy reports %q with %d commits, and the target lacks the newest one: %v", done.Outcome, done.Commits, missing)
	}
	if err != nil && segno.KindOf(err) != segno.KindConflict {
		t.Errorf("the error has the kind %v: %v", segno.KindOf(err), err)
	}
}

// vanishing is a store in which another user deletes the thread when a copy moves its head, or sets a pin.
type vanishing struct{ *side }

// Commit implements [segno.Store].
func (s vanishing) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if c.IsNode() || c.Create != nil {
		return s.side.Commit(ctx, c)
	}
	if err := s.Delete(ctx, c.Thread); err != nil {
		return segno.Head{}, err
	}
	return segno.Head{}, segno.Errorf(segno.KindConflict, "commit", string(c.Thread), "the head moved")
}

// TestACopyOfAThreadThatIsDeletedMeanwhile lets another user delete the thread in the target while a copy moves the head, or sets a pin.
func TestACopyOfAThreadThatIsDeletedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(from *side){
		"head": func(from *side) { from.undo("t") },
		"pin":  func(from *side) { from.pin("t", from.head("t").Head, "name") },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := newMemory(t, "from"), newMemory(t, "to")
			from.begin("t")
			from.turn("t", "one")
			if _, err := transfer.Copy(t.Context(), from, to, "t", transfer.Options{}); err != nil {
				t.Fatal(err)
			}
			change(from)
			_, err := transfer.Copy(t.Context(), from, vanishing{to}, "t", transfer.Options{})
			if segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("the error has the kind %v: %v", segno.KindOf(err), err)
			}
		})
	}
}
