// Package claude reads and writes the session files of Claude Code. [Transcripts]
// implements [segno.Transcript].
//
// # Session files
//
// A session is one file of JSON lines, projects/SLUG/SESSION.jsonl, where SLUG is made of
// the working directory (see [Slug]). User, assistant, attachment and system records form
// a tree by uuid and parentUuid; file order is not causal order. The agent finds the head
// of the tree when it loads the file and walks up from there to the root: the model sees
// the records on that path. A cut therefore keeps lines byte for byte, selects
// them by ancestry, and applies the agent's own rules to check where the result ends.
//
// Sidecars are the session's other files: transcripts of subagents, large tool results,
// the task list, backups of files and exports of hooks. They are captured and copied
// with the transcript.
//
// # Objects
//
// A capture stores the new bytes of the transcript as chunks of at most 1 MiB and one object,
// the log, that lists them and names the log before it. The log of a session that was cut from
// another one derives from the log of that session: it names the lines to keep and the new
// session id. At most 16 logs of one chain may leave out lines. Sidecars are listed in one
// object. docs/format.md specifies these objects. Their encodings are canonical: an object that
// does not encode back to the same bytes is corrupt.
package claude

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Agent is the name of Claude Code in links and checkpoints.
const Agent = "claude"

// Transcripts are the sessions of Claude Code, or of an agent that keeps its sessions in
// the same way, under one directory. All methods may be called concurrently. Errors are
// [segno.Error]s.
type Transcripts struct {
	sessionfile.Capturer
	agent   string
	resume  []string
	home    string
	managed string // the directory of the administrator's settings
	fs      vfs.FS
	objects segno.Objects
	now     func() time.Time

	isUntrusted func(ctx context.Context, sidecars segno.Hash) (bool, error)
}

var _ segno.Transcript = (*Transcripts)(nil)

// Options are the optional settings of [New]. The zero value is for Claude Code itself.
type Options struct {
	// Agent is the name of another agent that keeps its sessions in the same way, and Resume
	// the command that continues one, before the session's id.
	Agent  string
	Resume []string

	// Managed is the directory of the administrator's settings, "" for the usual one.
	Managed string

	FS    vfs.FS           // for all writes; nil is the operating system
	Clock func() time.Time // nil is time.Now
	// Objects contains the earlier captures. If it is set, a capture does not read unchanged
	// sidecars again. If it is nil, every capture reads all sidecars.
	Objects segno.Objects
	// IsUntrusted, if not nil, reports whether a stored list of sidecars came from a machine that the user does not trust. Of
	// such a list, no session gets the files that the agent runs.
	IsUntrusted func(ctx context.Context, sidecars segno.Hash) (bool, error)
}

// New returns the transcripts under home, the agent's CLAUDE_CONFIG_DIR, which must be
// absolute. It reads nothing.
func New(home string, o Options) *Transcripts {
	c := &Transcripts{agent: o.Agent, resume: o.Resume, home: filepath.Clean(home), managed: o.Managed, fs: o.FS, objects: o.Objects, now: o.Clock,
		isUntrusted: o.IsUntrusted}
	if c.agent == "" {
		c.agent, c.resume = Agent, []string{"claude", "--resume"}
	}
	if c.managed == "" {
		c.managed = managedSettings()
	}
	if c.fs == nil {
		c.fs = vfs.OS
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.Capturer = sessionfile.NewCapturer(c.capture)
	return c
}

// Agent returns the agent's name: Options.Agent, or [Agent] if that is empty.
func (c *Transcripts) Agent() string { return c.agent }

// Resume returns the command that continues a session.
func (c *Transcripts) Resume(src segno.Source) []string {
	return append(slices.Clone(c.resume), string(src.Session))
}

// projects is the directory of the sessions of all working directories.
func (c *Transcripts) projects() string { return filepath.Join(c.home, "projects") }
