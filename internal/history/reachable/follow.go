package reachable

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// Follower decides which objects a trace reads to find the objects that they name, such as the log of a session. A file may have
// exactly the bytes of such an object, for example a file of a store in the project. Both are then the same object, and visit
// returns false for the log if it has already received the file. So a Follower remembers which objects were read, and lets the
// trace read the others. A [workspace.Tracer] does the same for directories. The zero value is ready to use, for one goroutine
// at a time. A later call may pass another visit function that has received no object yet.
type Follower struct {
	// read has the objects that a trace has read since visit received them first.
	read map[segno.Hash]bool
}

// Follow calls trace with the objects and with a visit function that also returns true for an object that no trace has read.
func (f *Follower) Follow(objects segno.Objects, visit func(segno.Hash) bool, trace func(segno.Objects, func(segno.Hash) bool) error) error {
	visit = f.forgetting(visit)
	r := &recordingObjects{Objects: objects, read: f.read}
	err := trace(r, func(name segno.Hash) bool {
		r.last, r.isNew = name, visit(name)
		return r.isNew || !name.IsZero() && !f.read[name]
	})
	// Only if the trace had no other reason to fail.
	if r.isLost && !r.hasFailed && isMissingOrDamaged(err) {
		return nil
	}
	return err
}

// forgetting returns a function that calls visit. If visit has not received an object before, the function forgets that the
// object was read.
func (f *Follower) forgetting(visit func(segno.Hash) bool) func(segno.Hash) bool {
	if f.read == nil {
		f.read = map[segno.Hash]bool{}
	}
	return func(name segno.Hash) bool {
		isNew := visit(name)
		if isNew {
			delete(f.read, name)
		}
		return isNew
	}
}

// recordingObjects records which objects a trace reads.
type recordingObjects struct {
	segno.Objects
	read  map[segno.Hash]bool
	last  segno.Hash // the object that visit received last
	isNew bool       // visit had not received it before

	// isLost is set if an object cannot be read for which visit returned false. Visit may have returned false because the object is
	// missing or damaged, and the caller of the trace then knows that.
	isLost    bool
	hasFailed bool // another object cannot be read
}

// Get implements [segno.Objects].
func (r *recordingObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	data, err := r.Objects.Get(ctx, name)
	r.read[name] = true
	switch {
	case err == nil:
	case name == r.last && !r.isNew && isMissingOrDamaged(err):
		r.isLost = true
	default:
		r.hasFailed = true
	}
	return data, err
}

func isMissingOrDamaged(err error) bool {
	return errors.Is(err, segno.KindNotFound) || errors.Is(err, segno.KindCorrupt)
}
