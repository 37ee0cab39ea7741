package pack

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// An Importer imports threads of archives into a store.
type Importer struct {
	Store Store
	// Register returns the workspace of a directory. It registers the directory if it is new.
	Register func(ctx context.Context, dir string) (segno.WorkspaceRecord, error)
	// Open opens a workspace for writing.
	Open func(segno.WorkspaceRecord) (segno.Workspace, error)
	FS   vfs.FS // for directories; nil means the operating system
}

// Store is a store that knows workspaces.
type Store interface {
	segno.Store
	segno.Workspaces
}

// ImportedThread is the result of an import.
type ImportedThread struct {
	Thread  segno.ThreadID
	Dir     string // absolute, or "" for a thread without files
	Head    segno.CommitID
	Commits int
	// Instructions are files in Dir that an agent reads as instructions.
	Instructions []string
	// Skipped are the paths of the thread's snapshots that no archive is allowed to have, with the
	// reasons.
	Skipped     []archive.Omission
	WasComplete bool // an import of the same archive had completed before
}

const opImport = "unpack thread"

// ThreadAgent returns the agent of an archive that has a thread, or "".
func ThreadAgent(m *archive.Manifest) string {
	for _, a := range m.Agents {
		if len(m.Tree(a.Name, archive.Thread)) > 0 {
			return a.Name
		}
	}
	return ""
}

// Thread imports the thread of an archive into the store, and writes the files of its head to a new
// directory. The thread keeps its id, or gets another one if that id is taken. All its commits get
// new ids, which are derived from the archive's digest.
//
// Thread checks the whole thread before it writes anything. If the process is killed, another call
// with the same archive and directory completes the work. If the store already has the thread of
// this archive in the same directory, Thread changes nothing. If it has the thread in another
// directory, the error has [segno.KindConflict].
//
// The error has [segno.KindRefused] if the archive is not trusted, see [archive.Into], and
// [segno.KindCorrupt] if the thread is damaged.
func (m *Importer) Thread(ctx context.Context, r *archive.Reader, into Into) (*ImportedThread, error) {
	agent := ThreadAgent(r.Manifest())
	if agent == "" {
		return nil, segno.Errorf(segno.KindInvalid, opImport, into.Dir, "the archive has no thread")
	}
	x := newThreadImport(m, r)
	if err := x.run(ctx, r, agent, into); err != nil {
		return nil, err
	}
	return &x.out, nil
}

func newThreadImport(m *Importer, r *archive.Reader) *threadImport {
	x := &threadImport{Importer: *m, ids: importIDs{digest: r.Manifest().Digest}}
	if x.FS == nil {
		x.FS = vfs.OS
	}
	return x
}

// trusts returns an error unless the conversation of an archive may be imported into a store.
func (into *Into) trusts(r *archive.Reader) error {
	if into.TrustSession || into.Ours != nil && into.Ours(r.Manifest().Digest) {
		return nil
	}
	return segno.Errorf(segno.KindRefused, opImport, into.Dir, "the thread comes from elsewhere, and its author puts words into the mouths of your agent and its user").
		WithHint("use --trust-session if you trust the author")
}

// importIDs derives the ids of an import.
type importIDs struct {
	digest string
	thread segno.ThreadID
}

// commit returns the store's id for a commit of the archive.
func (i importIDs) commit(id segno.CommitID) segno.CommitID {
	if id == "" {
		return ""
	}
	return segno.CommitID(segno.DerivedID("import", i.digest, string(i.thread), string(id)))
}

// step returns the id of a commit that the import adds and the archive does not contain.
func (i importIDs) step(parts ...string) segno.CommitID {
	return segno.CommitID(segno.DerivedID(append([]string{"import step", i.digest, string(i.thread)}, parts...)...))
}

type threadImport struct {
	Importer
	t   *threadReader
	ids importIDs
	rec segno.WorkspaceRecord
	out ImportedThread
	// present replaces the snapshot of the head if the files are already in place.
	present *segno.Snapshot
	// isRenamed is set if the thread gets a new id even if its own is not taken.
	isRenamed bool
}

// commit converts a commit of the archive to one for the store.
func (x *threadImport) commit(n *node) segno.Commit {
	c := n.commit(x.ids.thread, x.ids.commit, x.rec.ID)
	if x.present != nil && n.ID == x.t.info.Head && c.Checkpoint != nil {
		c.Checkpoint.Workspace = x.present
	}
	return c
}

func (x *threadImport) run(ctx context.Context, r *archive.Reader, agent string, into Into) error {
	if err := into.trusts(r); err != nil {
		return err
	}
	if err := archive.CheckTarget(opImport, into.Dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(into.Dir)
	if err != nil {
		return segno.NewError(segno.KindIO, opImport, into.Dir, err)
	}
	dir = vfs.RealPath(dir)
	if x.t, err = newThreadReader(r, agent, archive.Thread); err != nil {
		return corrupt(err, dir)
	}
	if err := x.checkSize(dir, into.MaxBytes); err != nil { // comes first, because the check reads all objects
		return err
	}
	if err := x.t.check(ctx); err != nil {
		return corrupt(err, dir)
	}
	if err := x.checkSize(dir, into.MaxBytes); err != nil {
		return err
	}
	known, err := x.findEarlier(ctx, dir)
	x.out.Skipped = x.t.dropped.omissions()
	if err != nil || x.out.WasComplete {
		return err
	}
	if known != nil {
		if err := archive.CheckNoLinks(opImport, dir); err != nil {
			return err
		}
	}
	if err := x.putObjects(ctx); err != nil {
		return err
	}
	if err := x.begin(ctx, dir, known != nil); err != nil {
		return err
	}
	if err := x.putFiles(ctx); err != nil {
		return err
	}
	return x.putCommits(ctx)
}

// checkSize refuses a thread that is larger than the limit or the free space of the disk. It counts
// the objects, which go into the store, and the files.
func (x *threadImport) checkSize(dir string, most int64) error {
	total := int64(0)
	for _, size := range x.t.objects {
		total += size // cannot overflow: each size is at most maxObject
	}
	if x.t.files != nil {
		total += x.t.files.Bytes
	}
	if most == 0 {
		most = archive.DefaultMaxBytes
	}
	if total > most {
		return segno.Errorf(segno.KindRefused, opImport, dir, "the thread has %d bytes, more than the limit of %d", total, most).
			WithHint("allow more with --max-size if you trust the author")
	}
	above := filepath.Dir(dir)
	for ; above != filepath.Dir(above); above = filepath.Dir(above) {
		if _, err := os.Stat(above); err == nil {
			break
		}
	}
	if free, err := archive.FreeSpace(above); err == nil && total > free {
		return segno.Errorf(segno.KindRefused, opImport, dir, "the thread has %d bytes and the disk has %d free", total, free).
			WithHint("make space, or unpack on another disk")
	}
	return nil
}

// corrupt gives an error about the content of an archive the kind KindCorrupt.
func corrupt(err error, name string) error {
	switch kind := segno.KindOf(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.NewError(segno.KindCancelled, opImport, name, err)
	case kind == segno.KindNewer, kind == segno.KindRefused, kind == segno.KindIO:
		return segno.NewError(kind, opImport, name, err)
	}
	return segno.NewError(segno.KindCorrupt, opImport, name, err)
}

// candidates returns the ids that the thread may get: the archive's, or one that is derived from
// the digest.
func (x *threadImport) candidates() []segno.ThreadID {
	wanted := x.t.info.ID
	suffix := segno.DerivedID("imported thread", x.ids.digest)[:8]
	other := wanted + segno.ThreadID("-"+suffix)
	if len(other) > segno.MaxID {
		other = segno.ThreadID(suffix)
	}
	if x.isRenamed {
		return []segno.ThreadID{other}
	}
	return []segno.ThreadID{wanted, other}
}

// findEarlier returns the thread that an earlier import of this archive made, or nil.
func (x *threadImport) findEarlier(ctx context.Context, dir string) (*segno.Thread, error) {
	for _, id := range x.candidates() {
		x.ids.thread = id
		_, err := x.Store.Load(ctx, x.ids.commit(x.t.first), segno.Window{Last: 1})
		if segno.KindOf(err) == segno.KindNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		known, ok, err := segno.FindThread(ctx, x.Store, id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // the user deleted it
		}
		rec, err := x.Store.Workspace(ctx, known.Workspace)
		if err != nil {
			return nil, err
		}
		if rec.Path != dir {
			return nil, segno.Errorf(segno.KindConflict, opImport, dir, "the store has the thread of this archive already: %s, in %s", id, segno.QuotePath(rec.Path)).
				WithHint("continue it there, or use 'segno fork' there for another copy")
		}
		x.rec, x.out = rec, ImportedThread{Thread: id, Dir: rec.Path}
		x.out.WasComplete, err = x.isComplete(ctx)
		return &known, err
	}
	return nil, nil
}

// isComplete reports whether an earlier import made the last commit. It commits the same commit id
// with an expected head that no thread has. If the store already has the commit, it accepts the
// repetition and changes nothing. Otherwise it refuses the commit.
func (x *threadImport) isComplete(ctx context.Context) (bool, error) {
	if x.rec.State.Thread == x.ids.thread {
		return true, nil
	}
	last := x.last()
	last.Expect = x.ids.step("no head")
	_, err := x.Store.Commit(ctx, last)
	if segno.KindOf(err) == segno.KindConflict || segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	return err == nil, err
}

// last returns the commit that restores the positions of the head and the tip, and gives the
// directory to the thread.
func (x *threadImport) last() segno.Commit {
	last := segno.Commit{ID: x.ids.step("last"), Thread: x.ids.thread,
		Move: &segno.Move{Head: x.ids.commit(x.t.info.Head), Tip: x.ids.commit(x.t.info.Tip)}}
	last.Workspace = &segno.WorkspaceState{Workspace: x.rec.ID, Thread: x.ids.thread, By: last.ID, Time: x.t.info.Created}
	switch {
	case x.present != nil:
		last.Workspace.Snapshot = x.present
	case x.t.files != nil:
		snap := *x.t.files
		snap.Workspace, snap.Root = x.rec.ID, x.rec.Path
		last.Workspace.Snapshot = &snap
	}
	return last
}

// begin makes the directory, and makes the thread with its first commit, which decides the id. It
// refuses a directory that is not empty, unless an earlier import made it.
func (x *threadImport) begin(ctx context.Context, dir string, isKnown bool) error {
	made, err := x.makeDir(dir, isKnown)
	if err != nil {
		return err
	}
	if x.rec, err = x.Register(ctx, dir); err == nil {
		x.out.Dir = x.rec.Path
		if x.rec.Path != dir {
			err = segno.Errorf(segno.KindConflict, opImport, dir, "the directory is another workspace")
		}
	}
	if err == nil {
		err = x.createThread(ctx, isKnown)
	}
	if err != nil && made {
		err = errors.Join(err, x.FS.Remove(dir))
	}
	return err
}

// makeDir makes the directory. made is false if it already existed.
func (x *threadImport) makeDir(dir string, isKnown bool) (made bool, err error) {
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := vfs.MkdirAllSynced(x.FS, dir); err != nil {
			return false, segno.NewError(segno.KindIO, opImport, dir, err)
		}
		return true, nil
	case err != nil:
		return false, segno.NewError(segno.KindConflict, opImport, dir, err)
	case len(there) > 0 && !isKnown:
		return false, segno.Errorf(segno.KindConflict, opImport, dir, "the directory is not empty").WithHint("name a directory that does not exist")
	}
	return false, nil
}

// createThread commits the first commit, under the first id that is free.
func (x *threadImport) createThread(ctx context.Context, isKnown bool) error {
	candidates := x.candidates()
	if isKnown {
		candidates = []segno.ThreadID{x.out.Thread}
	}
	var first *node
	stop := errors.New("stop")
	err := x.t.commits(ctx, func(n *node) error { first = n; return stop })
	if !errors.Is(err, stop) {
		return err
	}
	for _, id := range candidates {
		x.ids.thread = id
		c := x.commit(first)
		c.Create = &segno.Thread{ID: id, Created: x.t.info.Created, Title: x.t.info.Title, Agent: x.t.info.Agent, Workspace: x.rec.ID}
		_, err := x.Store.Commit(ctx, c)
		switch segno.KindOf(err) {
		case segno.KindConflict, segno.KindNotFound: // another thread has the id, or a deleted one had it
			continue
		}
		x.out.Thread = id
		return err
	}
	return segno.Errorf(segno.KindConflict, opImport, x.rec.Path, "the store has other threads with the ids that the thread could get").
		WithHint("use another store with --store")
}

// Limits of a batch of objects.
const (
	batchBytes   = 64 << 20
	batchObjects = 4096
)

// putObjects puts all objects into the store, before a commit names them. The store collects them
// later if no commit does.
func (x *threadImport) putObjects(ctx context.Context) error {
	names := slices.SortedFunc(maps.Keys(x.t.objects), func(a, b segno.Hash) int { return bytes.Compare(a[:], b[:]) })
	for len(names) > 0 {
		n, size := 0, int64(0)
		for n < len(names) && n < batchObjects && size < batchBytes {
			size += x.t.objects[names[n]]
			n++
		}
		if err := x.putBatch(ctx, names[:n]); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

func (x *threadImport) putBatch(ctx context.Context, names []segno.Hash) (err error) {
	batch := x.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	for _, name := range names {
		data, err := threadObjects{x.t}.Get(ctx, name)
		if err != nil {
			return err
		}
		if _, err := batch.Put(ctx, data); err != nil {
			return err
		}
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return err
	}
	return x.Store.Objects().Keep(ctx, staged)
}

// putFiles writes the files of the head to the directory. Some may exist from an earlier import
// that was interrupted.
func (x *threadImport) putFiles(ctx context.Context) error {
	if x.t.files == nil {
		return nil
	}
	ws, err := x.Open(x.rec)
	if err != nil {
		return err
	}
	changes, err := ws.Diff(ctx, segno.Hash{}, x.t.files.Tree)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.To.HasContent() && archive.IsInstruction(c.Path) {
			x.out.Instructions = append(x.out.Instructions, c.Path)
		}
	}
	conflicts, err := ws.Apply(ctx, changes, x.t.files.Times)
	if err == nil && len(conflicts) > 0 {
		err = segno.Errorf(segno.KindConflict, opImport, filepath.Join(x.rec.Path, conflicts[0].Path), "%s", conflicts[0].Why)
	}
	if err != nil {
		return err
	}
	// A scan removes the temporary files of an interrupted import, and makes the index for the
	// first command in the directory.
	batch := x.Store.Objects().Batch()
	_, err = ws.Snapshot(ctx, batch)
	return errors.Join(err, batch.Close())
}

// putCommits makes the other commits.
func (x *threadImport) putCommits(ctx context.Context) error {
	head, err := x.Store.Head(ctx, x.ids.thread)
	if err != nil {
		return err
	}
	expect := segno.CommitID("")
	commit := func(c segno.Commit) error {
		c.Expect, c.Epoch = expect, head.Epoch
		head, err := x.Store.Commit(ctx, c)
		expect = head.Head
		return err
	}
	expect = x.ids.commit(x.t.first)
	err = x.t.commits(ctx, func(n *node) error {
		if x.out.Commits++; n.ID == x.t.first {
			return nil
		}
		return commit(x.commit(n))
	})
	if err != nil {
		return err
	}
	for _, p := range x.t.info.Pins {
		c := segno.Commit{ID: x.ids.step("pin", string(p.Checkpoint)), Thread: x.ids.thread, Pin: &segno.Pin{Checkpoint: x.ids.commit(p.Checkpoint), Name: p.Name}}
		if err := commit(c); err != nil {
			return err
		}
	}
	x.out.Head = x.ids.commit(x.t.info.Head)
	return commit(x.last())
}
