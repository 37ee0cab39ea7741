package database

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Options are the parts of an [Attached].
type Options struct {
	Objects segno.Objects
	// List is read by each method, because a database may be attached while a process runs for long.
	List  func() ([]Attachment, error)
	Cache Cache
	// Lock makes the caller the only one that looks at the database in a file. To close a file ends all
	// locks of the process on it, also those of another workspace that moves the same database.
	Lock func(ctx context.Context, file string) (unlock func(), err error)
	FS   vfs.FS
	Now  func() time.Time
}

// Attached is a workspace with databases.
type Attached struct {
	segno.Workspace
	options Options
	recent  *recent
}

// Attach adds databases to a workspace, whose rules must exclude the same files.
func Attach(w segno.Workspace, o Options) *Attached {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return &Attached{w, o, &recent{store: o.Objects, newest: map[segno.Hash][]byte{}}}
}

// Snapshot saves the tree and the databases. A database that cannot be read is in the document with
// the reason.
func (w *Attached) Snapshot(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.Snapshot{}, err
	}
	snap, err := w.Workspace.Snapshot(ctx, b)
	return w.withDatabases(ctx, b, all, snap, err)
}

// SnapshotAt is [segno.Workspace.SnapshotAt]. It looks at all databases.
func (w *Attached) SnapshotAt(ctx context.Context, b segno.Batch, paths []string) (segno.Snapshot, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.Snapshot{}, err
	}
	snap, err := w.Workspace.SnapshotAt(ctx, b, onlyFiles(paths))
	return w.withDatabases(ctx, b, all, snap, err)
}

func (w *Attached) withDatabases(ctx context.Context, b segno.Batch, all []Attachment, snap segno.Snapshot, err error) (segno.Snapshot, error) {
	if err == nil && len(all) > 0 {
		snap.World, err = w.save(ctx, b, all)
	}
	return snap, err
}

// onlyFiles returns the paths that name no database.
func onlyFiles(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { _, ok := segno.DatabaseName(p); return ok })
}

// find returns the database that a path of a plan names, and whether the path names one. The database is
// zero if it is not attached.
func find(all []Attachment, path string) (a Attachment, isDatabase bool) {
	name, isDatabase := segno.DatabaseName(path)
	i := slices.IndexFunc(all, func(a Attachment) bool { return a.Name == name })
	if i < 0 {
		return a, isDatabase
	}
	return all[i], isDatabase
}

// DiffDatabases returns the changes that turn the databases of document a into those of b. Databases
// that one of them does not describe, or that are not attached, do not change.
func (w *Attached) DiffDatabases(ctx context.Context, a, b *segno.Document) ([]segno.Change, error) {
	if a == nil || b == nil || *a == *b {
		return nil, nil
	}
	all, err := w.options.List()
	if err != nil {
		return nil, err
	}
	from, err := readDocument(ctx, w.recent, a)
	if err != nil {
		return nil, err
	}
	to, err := readDocument(ctx, w.recent, b)
	if err != nil {
		return nil, err
	}
	var changes []segno.Change
	for _, at := range all {
		was, is := from.find(at.Name), to.find(at.Name)
		if was != nil && is != nil && was.entity() != is.entity() {
			changes = append(changes, segno.Change{Path: segno.DatabasePath(at.Name), From: was.entity(), To: is.entity()})
		}
	}
	return changes, nil
}

// Apply writes databases and then files. It changes no file of an attached database, although a tree of
// before it was attached may have one.
func (w *Attached) Apply(ctx context.Context, steps []segno.Change, times segno.Hash) (conflicts []segno.Conflict, err error) {
	all, err := w.options.List()
	if err != nil {
		return nil, err
	}
	var files []segno.Change
	databases, beside := Files(w.Root(), all)
	own := map[string]bool{}
	for _, p := range slices.Concat(databases, beside) {
		own[p] = true
	}
	for _, step := range steps {
		at, isDatabase := find(all, step.Path)
		why := ""
		switch {
		case isDatabase && at.Name == "":
			why = "the database is not attached"
		case isDatabase:
			if why, err = w.write(ctx, at.File(w.Root()), step); err != nil {
				return conflicts, err
			}
		case own[Attachment{Path: step.Path}.File(w.Root())]:
			why = segno.WhyDatabase
		default:
			files = append(files, step)
		}
		if why != "" {
			conflicts = append(conflicts, segno.Conflict{Path: step.Path, Why: why})
		}
	}
	more, err := w.Workspace.Apply(ctx, files, times)
	return append(conflicts, more...), err
}

// write makes the change of the database in a file, or returns why it cannot.
func (w *Attached) write(ctx context.Context, file string, step segno.Change) (conflict string, err error) {
	unlock, err := w.options.Lock(ctx, file)
	if err != nil {
		return "", err
	}
	defer unlock()
	r := restorer{w.recent, w.options.FS}
	return r.write(ctx, file, step.From, step.To)
}

// Fork makes a copy of the tree, and of the databases of the snapshot.
func (w *Attached) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.ForkReport{}, err
	}
	doc, err := readDocument(ctx, w.recent, s.World)
	if err != nil {
		return segno.ForkReport{}, err
	}
	for _, at := range all { // before anything is written
		if copied := at.InFork(dir); at.Path != copied.Path && exists(copied.Path) {
			return segno.ForkReport{}, segno.Errorf(segno.KindConflict, "fork database", copied.Path, "already exists").
				WithHint("move it, or give another directory with --to")
		}
	}
	report, err := w.Workspace.Fork(ctx, s, dir)
	if err != nil {
		return report, err
	}
	r := restorer{w.recent, w.options.FS}
	for _, at := range all {
		state, file := doc.find(at.Name), at.InFork(report.Root).File(report.Root)
		if state == nil || state.Content.IsZero() {
			continue
		}
		pages, err := readPages(ctx, w.recent, state.Content)
		if err != nil {
			return report, err
		}
		if err := r.create(ctx, file, pages); err != nil {
			return report, err
		}
		report.Databases = append(report.Databases, file)
	}
	return report, nil
}

// DatabasePages returns how many pages a change writes or removes.
func (w *Attached) DatabasePages(ctx context.Context, c segno.Change) (int, error) {
	from, err := readPages(ctx, w.recent, c.From.Hash)
	if err != nil {
		return 0, err
	}
	to, err := readPages(ctx, w.recent, c.To.Hash)
	return differing(from, to), err
}

// DatabaseClients describes the other processes that have a database open.
func (w *Attached) DatabaseClients(c segno.Change) ([]string, error) {
	all, err := w.options.List()
	if err != nil {
		return nil, err
	}
	at, _ := find(all, c.Path)
	return clients(at.File(w.Root())), nil
}

// CheckDatabase returns an error if the store lacks a part of the state e.
func (w *Attached) CheckDatabase(ctx context.Context, e segno.Entity) error {
	pages, err := readPages(ctx, w.recent, e.Hash)
	if err != nil {
		return err
	}
	unique := map[segno.Hash]bool{}
	for _, p := range pages {
		unique[p] = true
	}
	for p := range maps.Keys(unique) {
		if _, err := w.recent.Get(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
