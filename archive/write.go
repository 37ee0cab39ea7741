package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/secret"
)

// A State is the input of an archive.
type State struct {
	Created time.Time
	Caller  map[string]any // further metadata
	World   *WorldState
	Agents  []AgentState
	Cut     *Cut
	Parent  *ParentInfo
	// Omitted is what the caller has left out of the state already.
	Omitted []Omission
}

// WorldState is the world's part.
type WorldState struct {
	Info     WorldInfo
	Document File // its Path does not matter
}

// AgentState is one agent's part. Its files may be in any order.
type AgentState struct {
	Info      AgentInfo
	Workspace []File
	Dirs      []string // empty directories of the workspace
	Links     []Link   // of the workspace, with paths relative to it
	Session   []File
	Thread    []File // see package internal/pack
	// Scanned is searched for secrets like the other files and is not in the archive: it is content
	// that Thread has in pieces, across which a value may go.
	Scanned []File
}

// A File is a file of a state, whose content is read when it is written.
type File struct {
	Path       string // relative to its tier, slash-separated
	Size       int64
	Executable bool
	Modified   time.Time // or zero
	// Open returns the content. Size bytes of it are taken; less is an error.
	Open func() (io.ReadCloser, error)
}

// WriteOptions say how an archive is written. The zero value scans for secrets with the
// rules alone and compresses each tier for its use.
type WriteOptions struct {
	// Deflate compresses everything so that any zip program can read it. Without it,
	// sessions and threads are compressed with zstd.
	Deflate bool
	Scanner *secret.Scanner
	// Verdicts, if given, saves the scan of contents that were clean before.
	Verdicts *secret.Verdicts
	// Allow are fingerprints of findings that the user allows.
	Allow []string
	// OmitSession writes the archive without sessions in which the scan finds a secret,
	// instead of refusing it.
	OmitSession bool
	// OmitFiles writes the archive without files, directories and links of workspaces in which, or in whose
	// names, the scan finds a secret, instead of refusing it. The manifest lists each, with
	// "(secret)" in place of a name that is a secret.
	OmitFiles bool
	// Since, if given, makes the archive a delta: contents that the base has are not stored,
	// and of a file that has grown only the tail is. Everything is searched for secrets.
	Since *Base
	// Sign, if given, returns the signature of a state digest.
	Sign func(digest string) ([]byte, error)
	// Recipients, if given, are those who can decrypt the archive. Nothing of it is on the disk
	// in the clear, not even while it is written.
	Recipients []age.Recipient
	// Record, if given, is called with the state digest when the archive is complete and durable,
	// before it appears under its name. An error refuses the archive.
	Record func(digest string) error
	// Progress, if given, is called with the bytes of content that are done and the sum.
	Progress func(done, total int64)
	// FS is the file system to write through; nil is the operating system's.
	FS vfs.FS
}

// A CheckpointSecretError refuses an archive in which a secret was found.
type CheckpointSecretError struct {
	Findings []secret.Finding
}

func (e *CheckpointSecretError) Error() string {
	f := e.Findings[0]
	place := segno.QuotePath(f.Path)
	if f.Record > 0 {
		place += fmt.Sprintf(":%d", f.Record)
	}
	text := fmt.Sprintf("%s contains %s (%s, fingerprint %s)", place, f.About, f.Sample, f.Fingerprint)
	if n := len(e.Findings) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Write writes an archive. The file exists if and only if it is complete and durable; an
// existing file of the name is a KindConflict. A secret refuses it with a
// [CheckpointSecretError] in a KindRefused, a state that no archive can have is a KindInvalid.
func Write(ctx context.Context, name string, state State, o WriteOptions) (*Manifest, error) {
	m, err := write(ctx, name, state, o)
	if err != nil {
		return nil, segno.NewError(writeKind(err), "write archive", name, err)
	}
	return m, nil
}

// Describe returns the manifest of the archive that Write would write, with the same errors,
// and writes nothing. It names the base of a delta whose file is not at hand.
func Describe(ctx context.Context, state State, o WriteOptions) (*Manifest, error) {
	o.Since, o.Sign = nil, nil
	if err := o.complete(); err != nil {
		return nil, segno.NewError(writeKind(err), "describe archive", "", err)
	}
	p, err := newPlan(state)
	if err == nil {
		c := &compressor{options: &o, meter: &meter{report: o.Progress, total: p.bytes}, shared: &sharer{}, dry: true}
		err = c.run(ctx, p.items, make([]vfs.File, workers()))
		if err == nil {
			err = p.judge(c.findings, &o)
		}
	}
	if err == nil {
		_, err = p.top(&o)
	}
	if err != nil {
		return nil, segno.NewError(writeKind(err), "describe archive", "", err)
	}
	m := p.manifest
	return &m, nil
}

// complete fills in what the caller left to Write.
func (o *WriteOptions) complete() error {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Scanner != nil {
		return nil
	}
	s, err := secret.New(secret.Options{})
	o.Scanner = s
	return err
}

func writeKind(err error) segno.Kind {
	var found *CheckpointSecretError
	var invalid *stateError
	switch {
	case errors.As(err, &found):
		return segno.KindRefused
	case errors.As(err, &invalid):
		return segno.KindInvalid
	case errors.Is(err, fs.ErrExist):
		return segno.KindConflict
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.KindCancelled
	}
	if kind := segno.KindOf(err); kind != segno.KindInternal {
		return kind // of a File's Open: the store may have lost the content
	}
	return segno.KindIO
}

// A stateError is a state that no archive can have.
type stateError struct{ why string }

func (e *stateError) Error() string { return e.why }

func write(ctx context.Context, name string, state State, o WriteOptions) (*Manifest, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(name); err == nil {
		return nil, fs.ErrExist
	}
	p, err := newPlan(state)
	if err != nil {
		return nil, err
	}
	removeAbandoned(ctx, filepath.Dir(name))
	bodies, discard, err := createBodies(ctx, o.FS, filepath.Dir(name))
	defer discard()
	if err != nil {
		return nil, err
	}
	c := &compressor{options: &o, meter: &meter{report: o.Progress, total: p.bytes}, shared: newSharer(o.Since)}
	if err := c.run(ctx, p.items, bodies); err != nil {
		return nil, err
	}
	if err := p.judge(c.findings, &o); err != nil {
		return nil, err
	}
	return p.assemble(ctx, name, &o)
}

// createBodies creates the files for compressed content. The function closes and removes
// those that it created.
func createBodies(ctx context.Context, fsys vfs.FS, dir string) (bodies []vfs.File, discard func(), err error) {
	discard = func() {
		for _, f := range bodies {
			f.Close()
			_ = fsys.Remove(f.Name()) // a file that stays has a name that says what it is
		}
	}
	for range workers() {
		f, err := createTemp(ctx, fsys, dir)
		if err != nil {
			return nil, discard, err
		}
		bodies = append(bodies, f)
	}
	return bodies, discard, nil
}
