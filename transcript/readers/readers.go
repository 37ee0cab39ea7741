// Package readers is the list of the agents whose sessions segno can read. Whatever opens sessions of several agents uses
// it: the store of this machine, and archives.
package readers

import (
	"os"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
	"github.com/dalsegno/segno/transcript/gemini"
	"github.com/dalsegno/segno/transcript/opencode"
)

// Options are what readers share. The zero value reads and writes the files of the operating system.
type Options struct {
	FS vfs.FS
	// Objects let a capture skip sidecars that have not changed.
	Objects segno.Objects
	Clock   func() time.Time
}

// Reader opens the sessions of one agent.
type Reader struct {
	Agent string
	// Open returns the reader of the sessions below a directory of the agent.
	Open func(dir string, o Options) segno.Transcript
	// Slug returns the element that stands for a working directory in the paths of sessions. It is nil if they have none.
	Slug func(dir string) string
}

// All returns the readers, one line each.
func All() []Reader {
	return []Reader{
		{Agent: claude.Agent, Open: openClaude, Slug: claude.Slug},
		{Agent: codex.Agent, Open: func(dir string, o Options) segno.Transcript { return codex.New(dir, codex.Options{FS: o.FS}) }},
		{Agent: gemini.Agent, Open: func(dir string, o Options) segno.Transcript { return gemini.New(dir, gemini.Options{FS: o.FS}) }},
		{Agent: opencode.Agent, Open: func(dir string, _ Options) segno.Transcript { return opencode.New(dir, os.TempDir()) }},
	}
}

func openClaude(dir string, o Options) segno.Transcript {
	return claude.New(dir, claude.Options{FS: o.FS, Objects: o.Objects, Clock: o.Clock})
}
