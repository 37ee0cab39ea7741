// Package transcript reads and writes the session files of agents. It has one
// type per agent, each a [segno.Transcript].
//
// # Claude Code
//
// [Claude] knows the files of Claude Code. A session is one file of JSON lines,
// projects/SLUG/SESSION.jsonl, where SLUG is made of the working directory (see
// [Slug]). User, assistant, attachment and system records form a tree by uuid and
// parentUuid; file order is not causal order. The agent finds the head of the
// tree when it loads the file and walks up from there; what it walks over is what
// the model will see. A cut therefore keeps lines byte for byte, chooses them by
// ancestry, and asks the agent's own rules where the result ends.
//
// Beside the transcript stand sidecars: subagents' transcripts and large tool
// results, the task list, backups of files and what hooks exported. They are
// captured and carried with it.
//
// # Objects
//
// A capture stores what is new in the transcript as chunks of at most 1 MiB and
// one object that lists them and names the one before it:
//
//	segno-log 1
//	prev 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	size 20480
//	chunk 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 4096
//
// The first has no prev line; size counts all bytes up to there. The log of a
// session that was cut from another is derived from that one's:
//
//	segno-log 1
//	prev 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
//	session 5d41402a-bc4b-4a76-b971-9d911017c592
//	keep 1 40
//	keep 44 52
//	size 18230
//	chunk 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae 143
//
// What prev stands for counts with the value of every top-level sessionId that is
// a string replaced, in lines that are JSON objects, and of its lines only those
// kept, all if there is no keep line. Lines are counted from 1, and size counts
// what comes of this. A log may be derived from a derived one, but lines be left
// out no more than 16 times.
//
// Sidecars are listed in one object, sorted by path, with mode, size,
// modification time in nanoseconds (0: to be read again), how and under what name
// the content is stored, and the quoted path:
//
//	segno-sidecars 1
//	600 117 1763712223765000000 blob 2c26b46b… "tasks/1.json"
//
// A blob is one object; content over 1 MiB is a log. Both encodings are
// canonical: what does not encode back to the same bytes is damaged.
package transcript

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// AgentClaude is the name of Claude Code in links and checkpoints.
const AgentClaude = "claude"

// Claude is Claude Code's transcripts. All methods may be called at once. Errors
// are [segno.Error]s.
type Claude struct {
	agent   string
	resume  []string
	home    string
	fs      vfs.FS
	objects segno.Objects
	now     func() time.Time
}

var _ segno.Transcript = (*Claude)(nil)

// ClaudeConfig says where Claude Code keeps its files.
type ClaudeConfig struct {
	Home string // required: CLAUDE_CONFIG_DIR, by default ~/.claude, made absolute

	// Agent is the name of another agent that keeps its sessions in the same way, and Resume
	// the command that continues one, before the session's id. "" and nil are Claude Code's.
	Agent  string
	Resume []string

	FS    vfs.FS           // how to write; nil is the operating system
	Clock func() time.Time // nil is time.Now
	// Objects is where earlier captures are. With it, sidecars that did not
	// change are not read again; nil reads them at every capture.
	Objects segno.Objects
}

// NewClaude returns the transcripts under c.Home.
func NewClaude(c ClaudeConfig) *Claude {
	out := &Claude{agent: c.Agent, resume: c.Resume, home: filepath.Clean(c.Home), fs: c.FS, objects: c.Objects, now: c.Clock}
	if out.agent == "" {
		out.agent, out.resume = AgentClaude, []string{"claude", "--resume"}
	}
	if out.fs == nil {
		out.fs = vfs.OS
	}
	if out.now == nil {
		out.now = time.Now
	}
	return out
}

// Agent returns the agent's name: [AgentClaude] unless the configuration has another.
func (c *Claude) Agent() string { return c.agent }

// Resume returns the command that continues a session.
func (c *Claude) Resume(src segno.Source) []string {
	return append(slices.Clone(c.resume), string(src.Session))
}

// projects is the directory of all working directories' sessions.
func (c *Claude) projects() string { return filepath.Join(c.home, "projects") }
