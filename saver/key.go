package saver

import (
	"strings"

	"github.com/dalsegno/segno"
)

// ThreadKey names a thread of a saver. Both parts are any UTF-8, and different keys always
// name different threads.
type ThreadKey struct {
	Thread    string `json:"thread"`
	Namespace string `json:"namespace,omitempty"` // "" is the thread itself; a name is a part of it
}

// parts is the prefix of the id of each namespace's thread. No other thread may have an id with it.
const parts = "namespace\x1f"

// ID returns the id of the thread. Each namespace is a separate thread with its own head.
func (a ThreadKey) ID() segno.ThreadID {
	if a.Namespace == "" {
		return segno.ThreadID(a.Thread)
	}
	return segno.ThreadID(parts + segno.DerivedID(a.Thread, a.Namespace))
}

// check returns an error for a key that no thread can have.
func (a ThreadKey) check(op string) error {
	if err := segno.CheckID(op, a.Thread); err != nil {
		return err
	}
	if strings.HasPrefix(a.Thread, parts) {
		return segno.Errorf(segno.KindInvalid, op, a.Thread, "the prefix of the id is reserved for threads of namespaces")
	}
	if a.Namespace == "" {
		return nil
	}
	return segno.CheckID(op, a.Namespace)
}
