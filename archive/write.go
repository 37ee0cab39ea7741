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
	// Omitted are the parts of the state that the caller has already left out.
	Omitted []Omission
}

// WorldState is the world's part of a State.
type WorldState struct {
	Info     WorldInfo
	Document File // its Path does not matter
}

// AgentState is the part of a State of one agent. Its files may be in any order.
type AgentState struct {
	Info      AgentInfo
	Workspace []File
	Dirs      []string // empty directories of the workspace
	Links     []Link   // of the workspace, with paths relative to it
	Session   []File
	Thread    []File // see package internal/pack
	// Scanned is searched for secrets like the other files but is not in the archive. Thread has
	// the same content in pieces, and a secret may extend over several of them.
	Scanned []File
}

// A File is a file of a state. Write reads its content when it stores the file or searches it for secrets.
type File struct {
	Path       string // relative to its tier, slash-separated
	Size       int64
	Executable bool
	Modified   time.Time // or zero
	// Sum is the SHA-256 of the content, if the caller knows it, else zero. Write then does not read a content that the
	// base of a delta has and that was found clean before.
	Sum segno.Hash
	// Open returns the content. Write reads Size bytes of it; fewer are an error.
	Open func() (io.ReadCloser, error)
}

// WriteOptions configure how an archive is written. The zero value scans for secrets with only the
// rules and compresses each tier for its use.
type WriteOptions struct {
	// Deflate compresses everything with deflate, so that any zip program can read it. If it is not
	// set, sessions and threads are compressed with zstd.
	Deflate bool
	Scanner *secret.Scanner
	// Verdicts, if given, avoids the scan of contents that were clean before.
	Verdicts *secret.Verdicts
	// Allow are fingerprints of findings that the user allows.
	Allow []string
	// OmitSession writes the archive without sessions in which the scan finds a secret,
	// instead of refusing it.
	OmitSession bool
	// OmitFiles writes the archive without those files, directories and links of workspaces whose
	// content or name has a secret, instead of refusing it. The manifest lists each, with
	// "(secret)" in place of a name that is a secret.
	OmitFiles bool
	// Since, if given, makes the archive a delta: it does not store contents that the base has, and
	// stores only the tail of a file that has grown. All contents are searched for secrets.
	Since *Base
	// Sign, if given, returns the signature of a state digest.
	Sign func(digest string) ([]byte, error)
	// Recipients, if given, can decrypt the archive. No part of it is ever on the disk in clear
	// text, not even while Write writes it.
	Recipients []age.Recipient
	// Record, if given, is called with the state digest when the archive is complete and durable,
	// before it appears under its name. If Record returns an error, the archive does not appear.
	Record func(digest string) error
	// Progress, if given, is called with the bytes of content processed so far and the total.
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

// Write writes an archive. The file exists if and only if it is complete and durable. If the name
// exists already, the error is a KindConflict. If a secret is found, it is a [CheckpointSecretError]
// in a KindRefused. For a state that no archive can have, it is a KindInvalid.
func Write(ctx context.Context, name string, state State, o WriteOptions) (*Manifest, error) {
	m, err := write(ctx, name, state, o)
	if err != nil {
		return nil, segno.NewError(writeKind(err), "write archive", name, err)
	}
	return m, nil
}

// Describe returns the manifest of the archive that Write would write, with the same errors.
// It writes nothing. It serves to name the base of a delta if the base's file is not available.
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

// complete fills in the options that the caller did not set.
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
		return kind // from a File's Open: the store may have lost the content
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

// createBodies creates the files for compressed content. discard closes and removes the files that
// were created.
func createBodies(ctx context.Context, fsys vfs.FS, dir string) (bodies []vfs.File, discard func(), err error) {
	discard = func() {
		for _, f := range bodies {
			f.Close()
			_ = fsys.Remove(f.Name()) // the name of a file that stays shows its purpose
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
