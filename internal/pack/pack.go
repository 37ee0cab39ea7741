// Package pack connects archives with the store and with agents. [Packer.State] makes the state
// of an archive from a checkpoint, and [Unpack] puts a loaded archive into place: the files of
// its workspace into a new directory, and its conversation into the home of the agent, where the
// agent can resume it in that directory.
//
// # What an archive keeps of a workspace
//
// Contents, names, modification times of files, whether a file is executable, symlinks that
// stay inside the workspace, and empty directories. Hard links become separate files. Other
// permission bits, owners and extended attributes are not kept. What the snapshot protects is
// listed as omitted.
//
// # What an archive keeps of a session
//
// The files of one session id that the table in backend.go names, and no others. They are the
// files that [segno.Transcript.Cut] writes for the checkpoint, under the id of the checkpoint's
// session. The part of a path that the agent derives from the working directory is @cwd. The
// same checkpoint gives the same bytes on every machine.
package pack

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// A Packer makes states of archives from the checkpoints of a store. Its methods may be called
// concurrently.
type Packer struct {
	Store segno.Store
	Temp  string // an existing directory for temporary files; "" is the system's
	FS    vfs.FS // for all writes; nil is the operating system
}

// Options choose parts of a checkpoint. The zero value takes all of it.
type Options struct {
	// WorkspaceOnly leaves out sessions and the world. It is the form to give away.
	WorkspaceOnly bool
	// OmitSession leaves out sessions.
	OmitSession bool
}

// State returns the state of a checkpoint for [archive.Write], and a function that removes the
// temporary files of the state, which the caller calls when the archive is written. That function is never
// nil, also if there is an error.
//
// A checkpoint without members becomes one agent with the name of the checkpoint's agent. Of a
// checkpoint with members, each member becomes an agent. What is left out is listed in
// State.Omitted. The same checkpoint and options give the same state.
//
// The state is quiet if the checkpoint, or each of its members, ends a turn that was not
// interrupted, and nothing else is known to have worked in its workspace: no turn of another
// thread and no background task. It is crash in all other cases.
//
// The error has [segno.KindNotFound] if the store has no such checkpoint, and
// [segno.KindCorrupt] if the store lost a part of it.
func (p *Packer) State(ctx context.Context, at segno.CommitID, o Options) (archive.State, func() error, error) {
	return archive.State{}, func() error { return nil }, segno.NewError(segno.KindInternal, "pack", string(at), nil)
}
