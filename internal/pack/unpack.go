package pack

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// Into says where an archive is unpacked to and what of it. Fields with the names of those of
// [archive.Into] have the same meaning.
type Into struct {
	// Dir is the directory to make. It must not exist, or be empty.
	Dir          string
	TrustSession bool
	Ours         func(digest string) bool
	// NewSession gives each session a new id. Otherwise a session keeps its id if the agent's home has no
	// session with it.
	NewSession bool
	// Home returns the directory in which an agent keeps its sessions, an absolute path, or "" if the sessions of
	// that agent shall not be unpacked. agent is the name in [archive.AgentInfo.Backend].
	// [DefaultHome] is usual. Nil unpacks no sessions.
	Home     func(agent string) string
	Tiers    []archive.Tier
	Agents   []string
	MaxBytes int64
	Progress func(done, total int64)
	FS       vfs.FS // for all writes; nil is the operating system
}

// Unpacked is the result of [Unpack].
type Unpacked struct {
	Dir    string // absolute, symlinks resolved
	World  string // the path of the world's document, or ""
	Agents []UnpackedAgent
	// Skipped are the files of the archive that are not in place, with the reason.
	Skipped []archive.Omission
}

// UnpackedAgent is one agent of an archive.
type UnpackedAgent struct {
	Name    string
	Backend string
	Dir     string          // its workspace
	Session segno.SessionID // the id under which its agent knows the session, or "" if none was unpacked
	Command []string        // continues the session, to be run in Dir; nil without a session
}

// Unpack puts an archive into place. If the archive has one agent and no world, Dir becomes the
// workspace of that agent; otherwise Dir gets world.snapshot and agents/NAME/workspace. Each session is added to the
// home of its agent, so that the agent resumes it in its workspace. Unpack only adds files to a
// home, and changes no session that exists there.
//
// If Unpack fails, neither Dir nor a session is there. If the process is killed, Dir is there and complete or
// does not exist. In the second case a session without a directory, or a hidden
// directory beside Dir, can remain. Another Unpack works.
//
// Errors are those of [archive.Load]. The error also has [segno.KindCorrupt] if the agent could not resume
// a session of the archive.
func Unpack(ctx context.Context, r *archive.Reader, into Into) (*Unpacked, error) {
	return nil, segno.NewError(segno.KindInternal, "unpack", into.Dir, nil)
}

// DefaultHome returns the directory in which an agent of this user keeps its sessions, by the
// environment, or "" if no session of that agent can be unpacked. Unpack's Into.Home takes it.
func DefaultHome(agent string, getenv func(string) string) string { return "" }
