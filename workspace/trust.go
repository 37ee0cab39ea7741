package workspace

import (
	"fmt"

	"github.com/dalsegno/segno"
)

// ForeignError is the cause of an error with [segno.KindRefused]: a directory belongs to
// another user, and this user has not accepted that yet. The owner could put files there for
// segno to read. git requires safe.directory in this case.
type ForeignError struct {
	Root string // the directory's real path
	UID  uint32 // of its owner
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("it belongs to another user (uid %d), so it is not recorded", e.UID)
}

// CheckOwner returns an error with [segno.KindRefused] and a [ForeignError] if a directory does
// not belong to this process's user, unless trusted reports that the user accepted its owner. A
// nil trusted accepts every owner.
func CheckOwner(dir string, trusted func(root string, uid uint32) bool) error {
	if trusted == nil {
		return nil
	}
	real, err := realDir(dir)
	if err != nil {
		return pathError("check owner", dir, err)
	}
	uid, err := ownerAt(real)
	if err != nil {
		return pathError("check owner", real, err)
	}
	if !isForeign(uid) || trusted(real, uid) {
		return nil
	}
	return segno.NewError(segno.KindRefused, "open workspace", real, &ForeignError{real, uid}).
		WithHint("if you trust that user, run 'segno enable claude --trust' in " + real)
}
