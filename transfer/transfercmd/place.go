package transfercmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// checkTarget checks --to before anything is copied. A thread with files needs it, and the directory must be empty, unless
// an interrupted pull of the thread made it.
func (p *puller) checkTarget(ctx context.Context) error {
	if p.dir == "" {
		head, err := p.remote.Head(ctx, p.thread)
		if err != nil {
			return err
		}
		for n, err := range segno.Ancestors(ctx, p.remote, head.Head, segno.Window{Last: 4}) {
			if err != nil {
				return err
			}
			if n.Checkpoint != nil && n.Checkpoint.Workspace != nil {
				return segno.Errorf(segno.KindInvalid, "pull", string(p.thread), "the thread has files").WithHint("name a directory for them with --to DIR")
			}
			if n.Checkpoint != nil {
				break
			}
		}
		return nil
	}
	p.dir = vfs.RealPath(p.dir)
	there, err := os.ReadDir(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return segno.NewError(segno.KindConflict, "pull", p.dir, err)
	case len(there) == 0:
		return nil
	}
	rec, err := p.store.Find(ctx, p.dir)
	if err == nil && rec.Path == p.dir && rec.State.Thread == p.thread && rec.State.Snapshot == nil {
		return nil
	}
	return segno.Errorf(segno.KindConflict, "pull", p.dir, "the directory is not empty").WithHint("name a directory that does not exist")
}

// place makes the directory with the files of the head, records that the thread works there, and continues the session of
// the agent there. Each step can be repeated. isNewer means that a restore of a newer head follows, which continues the session.
func (p *puller) place(ctx context.Context, isNewer bool) error {
	at, err := p.newestCheckpoint(ctx, p.res.Head)
	if err != nil {
		return err
	}
	if at.Workspace == nil {
		p.res.Chat = "the thread has no files, so it needs no directory"
		return nil
	}
	changes, err := workspace.Diff(ctx, p.store.Objects(), segno.Hash{}, at.Workspace.Tree)
	if err != nil {
		return err
	}
	// No checkpoint has the content of protected paths, such as .git and node_modules.
	changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return c.To.Type == segno.EntityProtected })
	for i := range changes { // as in a fork: they would grant the rights of an owner, who is another one here
		changes[i].To.Mode &^= timeline.SetIDs
		changes[i].To.Owner = segno.Owner{}
	}
	if err := p.checkTrust(ctx, changes, segno.Hash{}, at.Workspace.Tree); err != nil {
		return err
	}
	fsys := p.store.Place().FS
	if fsys == nil {
		fsys = vfs.OS
	}
	if err := vfs.MkdirAllSynced(fsys, p.dir); err != nil {
		return segno.NewError(segno.KindIO, "pull", p.dir, err)
	}
	rec, err := p.store.Register(ctx, p.dir)
	if err != nil {
		return err
	}
	if rec.Path != p.dir {
		return segno.Errorf(segno.KindConflict, "pull", p.dir, "the directory is the workspace %s", segno.QuotePath(rec.Path))
	}
	if err := p.recordState(ctx, rec, nil, segno.Staged{}); err != nil { // an interrupted pull finds its directory by this
		return err
	}
	tl, err := p.store.Timeline(rec, nil)
	if err != nil {
		return err
	}
	snap, staged, err := writeFiles(ctx, p.store, tl, rec, changes, at.Workspace.Times)
	if err != nil {
		return err
	}
	p.res.Dir = rec.Path
	if isNewer {
		p.Yes = p.Yes || snap.Tree == at.Workspace.Tree // nothing in the directory is the user's
	} else if at.Session != nil || at.Agent != "" { // otherwise the user saved it before there was a conversation
		if err := p.resume(ctx, tl); err != nil {
			return err
		}
	}
	return p.recordState(ctx, rec, &snap, staged) // the last step: until then, a pull continues here
}

// recordState records that a directory is at the thread, and the snapshot that it has. staged are the objects of the snapshot.
func (p *puller) recordState(ctx context.Context, rec segno.WorkspaceRecord, snap *segno.Snapshot, staged segno.Staged) error {
	for {
		head, err := p.store.Head(ctx, p.thread)
		if err != nil {
			return err
		}
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: p.thread, Expect: head.Head, Epoch: head.Epoch, Staged: staged}
		c.Workspace = &segno.WorkspaceState{Workspace: rec.ID, Thread: p.thread, Snapshot: snap, By: c.ID, Time: p.store.Place().Now()}
		if _, err = p.store.Commit(ctx, c); segno.KindOf(err) != segno.KindConflict {
			return err
		}
	}
}

// writeFiles writes the files of a snapshot into a new directory, and returns what the directory then has: it lacks protected paths. It
// overwrites nothing. The scan also makes the index for the first command in the directory.
func writeFiles(ctx context.Context, store *local.Store, tl *timeline.Timeline, rec segno.WorkspaceRecord, changes []segno.Change, times segno.Hash) (now segno.Snapshot, staged segno.Staged, err error) {
	unlock, err := store.Spool().Lock(ctx, rec.ID)
	if err != nil {
		return now, staged, err
	}
	defer unlock()
	conflicts, err := tl.Workspace.Apply(ctx, changes, times)
	if err == nil && len(conflicts) > 0 {
		err = segno.Errorf(segno.KindConflict, "pull", filepath.Join(rec.Path, conflicts[0].Path), "%s", conflicts[0].Why)
	}
	if err != nil {
		return now, staged, err
	}
	batch := store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	if now, err = tl.Workspace.Snapshot(ctx, batch); err == nil {
		staged, err = batch.Stage(ctx)
	}
	return now, staged, err
}

// resume writes the session of the agent for the new directory.
func (p *puller) resume(ctx context.Context, tl *timeline.Timeline) error {
	r, err := chat.Resume(ctx, tl, p.res.Dir, p.StoreToName(p.store), p.thread, p.res.Head)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindRefused {
		p.res.Chat = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	p.res.Session, p.res.SessionDir, p.res.Command = r.Session, r.Dir, r.Command
	return nil
}
