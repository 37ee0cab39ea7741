// Package codex reads and writes the session files of Codex. [Transcripts] implements
// [segno.Transcript].
//
// # Session files
//
// A session, which Codex calls a thread, is a rollout: a file of JSON lines below the directory
// sessions or archived_sessions of CODEX_HOME, also compressed as .zst. Codex finds it by its name,
// rollout-TIME-THREAD.jsonl. The first line, session_meta, has the id and the directory of the
// session; the model sees the response_item lines and the newest compacted line.
//
// A session that was forked or reverted refers to its beginning instead of copying it: its
// session_meta has a history_base, the id of another rollout and the offset up to which its lines
// count. That rollout may refer to a third one. A reverted session has a rollout for each revert,
// THREAD_ROLLOUT in its name; the one with the highest id is in use.
//
// This package sees a session as one stream: the session_meta of the newest rollout, without the
// reference, and the lines of all rollouts of the lineage in order. Offsets and hashes of a
// position count bytes of that stream. For a session without a reference it is the file. A cut
// writes the stream up to the position with a new id, so the new session needs no other file.
//
// Codex also keeps databases beside the rollouts. They are caches: Codex adds a rollout that it
// finds by name. A row for a known session has an absolute path, so this package never reads,
// writes or copies them.
//
// # Objects
//
// A capture stores the new bytes of the stream as docs/format.md describes for logs. The log of a
// session that was cut replaces the first line of the log of the other session.
package codex

import (
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Agent is the name of Codex in links and checkpoints.
const Agent = "codex"

// Transcripts are the sessions of Codex under one directory. All methods may be called
// concurrently. Errors are [segno.Error]s.
type Transcripts struct {
	sessionfile.Capturer
	home string
	fs   vfs.FS
}

var _ segno.Transcript = (*Transcripts)(nil)

// Options are the optional settings of [New].
type Options struct {
	FS vfs.FS // for all writes; nil is the operating system
}

// New returns the transcripts under home, the agent's CODEX_HOME, which must be absolute. It
// reads nothing.
func New(home string, o Options) *Transcripts {
	c := &Transcripts{home: filepath.Clean(home), fs: o.FS}
	if c.fs == nil {
		c.fs = vfs.OS
	}
	c.Capturer = sessionfile.NewCapturer(c.capture)
	return c
}

// Agent returns [Agent].
func (c *Transcripts) Agent() string { return Agent }

// Resume returns the command that continues a session. The command names the directory, because
// Codex would otherwise ask whether to run in the directory of the session's newest turn, and
// suggest that one.
func (c *Transcripts) Resume(src segno.Source) []string {
	command := []string{"codex", "resume", string(src.Session)}
	if src.Dir != "" {
		command = append(command, "-C", src.Dir)
	}
	return command
}
