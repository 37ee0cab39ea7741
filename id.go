package segno

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

type (
	// ThreadID names a thread. It is permanent and the same in every store.
	ThreadID string
	// CommitID names a commit. A checkpoint is addressed by the id of the commit
	// that carried it.
	CommitID string
	// SessionID is an agent's own name for a conversation. It is opaque, it may change under a
	// thread, and it alone addresses nothing.
	SessionID string
	// WorkspaceID names a directory tree, and stays the same if the tree is moved.
	WorkspaceID string
	// OperationID names an operation of a workspace's log.
	OperationID string
	// TurnKey names a turn while it is open. It is the agent's own id of the prompt if there is
	// one.
	TurnKey string
)

// MaxID is the length in bytes of the longest id a store accepts.
const MaxID = 1024

var idText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns 128 random bits as 26 lower-case letters and digits. Ids are random from the
// first letter on, so that a user need type only a few letters. Their order has no meaning.
func NewID() string { return strings.ToLower(rand.Text()) }

// DerivedID returns an id that is a function of parts. A step that is repeated after a crash
// thus gets the same id.
func DerivedID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return idText.EncodeToString(h.Sum(nil)[:16])
}

// CheckID reports whether a store can keep s as an id: valid UTF-8, not empty, at most [MaxID]
// bytes. The error has [KindInvalid].
func CheckID(op, s string) error {
	switch {
	case s == "":
		return Errorf(KindInvalid, op, "", "the id is empty")
	case len(s) > MaxID:
		return Errorf(KindInvalid, op, s[:32]+"…", "the id is longer than 1024 bytes")
	case !utf8.ValidString(s):
		return Errorf(KindInvalid, op, "", "the id is not valid UTF-8")
	}
	return nil
}
