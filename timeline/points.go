package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// SavedCall has the states of the files that a call of a tool wrote, as the hook after the call found them.
type SavedCall struct {
	Call  string      `json:"call"` // see [SavedName]
	Files []SavedFile `json:"files"`
}

// SavedFile is the state of one path after a call. A path whose content was not saved is protected.
type SavedFile struct {
	Path    []byte       `json:"path"` // relative to the root, any bytes
	Entity  segno.Entity `json:"entity,omitzero"`
	Changed time.Time    `json:"changed,omitzero"`  // when the path last changed in any way; zero if it does not exist or if that is not certain
	Named   int          `json:"named,omitempty"`   // the index of the name in [profile.Tool.Files] of the call's input
	Content []byte       `json:"content,omitempty"` // of a file; only in the spool
}

// savedCalls is the object that [segno.Checkpoint.Points] names.
type savedCalls struct {
	Version int         `json:"version"`
	Calls   []SavedCall `json:"calls"` // in the order in which they ended
	// Touched are the times at which the paths that the turn changed, and the directories above them, last changed. A
	// missing path did not change after its time.
	Touched []touchedPath `json:"touched,omitempty"`
}

type touchedPath struct {
	Path []byte    `json:"path"`
	Time time.Time `json:"time"`
}

// maxTouched is the number of paths above which no times are kept.
const maxTouched = 1000

const savedCallsVersion = 1

// savePoints puts the states of files that hooks saved after calls into the batch. A state that cannot be read is left out:
// the points that need it are then not exact, and the turn is recorded all the same.
func (tx *txn) savePoints(ctx context.Context, w *turnEnd) error {
	var all savedCalls
	if w.done != nil {
		all, _ = readSavedCalls(ctx, tx.Store.Objects(), w.done) // an unreadable list counts as none
	}
	at := map[string]int{}
	for i, c := range all.Calls {
		at[c.Call] = i
	}
	for c, err := range tx.Spool.SavedCalls(ctx, w.turn.Key) {
		if err != nil {
			return err
		}
		for i := range c.Files {
			if err := putSaved(ctx, w.batch, &c.Files[i]); err != nil {
				return err
			}
		}
		if i, again := at[c.Call]; again { // an agent with two sets of settings runs each hook twice
			all.Calls[i] = c
			continue
		}
		at[c.Call] = len(all.Calls)
		all.Calls = append(all.Calls, c)
	}
	if len(all.Calls) == 0 {
		return nil
	}
	all.Version, all.Touched = savedCallsVersion, nil
	if len(w.touched) <= maxTouched {
		for name, at := range w.touched {
			all.Touched = append(all.Touched, touchedPath{[]byte(name), at.UTC()})
		}
		slices.SortFunc(all.Touched, func(a, b touchedPath) int { return bytes.Compare(a.Path, b.Path) })
	}
	data, err := json.Marshal(all)
	if err == nil {
		w.points, err = w.batch.Put(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("save the files after calls: %w", err)
	}
	return nil
}

// putSaved moves the content of a saved file into the batch. The hook did not compute the hash, because an agent waited for it.
func putSaved(ctx context.Context, b segno.Batch, f *SavedFile) (err error) {
	if f.Entity.Type == segno.EntityFile {
		f.Entity.Hash, err = b.Put(ctx, f.Content)
	}
	f.Content = nil
	return err
}

// readSavedCalls reads the states that hooks saved during the turn of a checkpoint.
func readSavedCalls(ctx context.Context, o segno.Objects, c *segno.Checkpoint) (all savedCalls, err error) {
	if c.Points.IsZero() {
		return all, nil
	}
	data, err := o.Get(ctx, c.Points)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err == nil && all.Version != savedCallsVersion {
		err = segno.Errorf(segno.KindNewer, "read points", string(c.ID), "version %d", all.Version)
	}
	return all, err
}

// TracePoints calls visit for each object that the points of a checkpoint reach. A missing list is no error, because a
// collection by a version of segno that does not know it removes it.
func TracePoints(ctx context.Context, o segno.Objects, c *segno.Checkpoint, visit func(segno.Hash) bool) error {
	if c.Points.IsZero() || !visit(c.Points) {
		return nil
	}
	all, err := readSavedCalls(ctx, o, c)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, call := range all.Calls {
		for _, f := range call.Files {
			if f.Entity.HasContent() {
				visit(f.Entity.Hash)
			}
		}
	}
	return nil
}
