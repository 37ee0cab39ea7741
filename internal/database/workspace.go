package database

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Options say where an [Attached] finds databases and keeps their objects.
type Options struct {
	Objects segno.Objects
	// List returns the attached databases. Each method calls it, because the user may attach a database while a process
	// runs.
	List  func() ([]Attachment, error)
	Cache Cache
	// Lock makes the caller the only one that opens the database in a file or on a server. The lock is necessary
	// because closing a file releases all locks of the process on it, even those of another workspace that moves the
	// same database.
	Lock func(ctx context.Context, file string) (unlock func(), err error)
	// Postgres connects to PostgreSQL databases. If it is nil, they are recorded as unread.
	Postgres Postgres
	FS       vfs.FS
	Now      func() time.Time
}

// Attached is a workspace with databases.
type Attached struct {
	segno.Workspace
	options Options
	recent  *recent
	copies  []Attachment // made by the newest fork
}

// Attach adds databases to a workspace. The rules of the workspace must exclude the same files.
func Attach(w segno.Workspace, o Options) *Attached {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return &Attached{Workspace: w, options: o, recent: &recent{store: o.Objects, newest: map[segno.Hash][]byte{}}}
}

// Snapshot saves the tree and the databases. It lists a database that cannot be read in the snapshot's Unread, and in
// the document with the reason.
func (w *Attached) Snapshot(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.Snapshot{}, err
	}
	snap, err := w.Workspace.Snapshot(ctx, b)
	return w.withDatabases(ctx, b, all, snap, err)
}

// SnapshotWatched implements [segno.Workspace.SnapshotWatched]. It saves all databases.
func (w *Attached) SnapshotWatched(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.Snapshot{}, err
	}
	snap, err := w.Workspace.SnapshotWatched(ctx, b)
	return w.withDatabases(ctx, b, all, snap, err)
}

// SnapshotAt implements [segno.Workspace.SnapshotAt]. It saves all databases, whatever the paths
// are.
func (w *Attached) SnapshotAt(ctx context.Context, b segno.Batch, paths []string) (segno.Snapshot, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.Snapshot{}, err
	}
	snap, err := w.Workspace.SnapshotAt(ctx, b, onlyFiles(paths))
	return w.withDatabases(ctx, b, all, snap, err)
}

func (w *Attached) withDatabases(ctx context.Context, b segno.Batch, all []Attachment, snap segno.Snapshot, err error) (segno.Snapshot, error) {
	if err != nil || len(all) == 0 {
		return snap, err
	}
	doc, name, err := w.save(ctx, b, all)
	if err != nil {
		return snap, err
	}
	snap.World = name
	var paths []string
	for _, u := range doc.unread() {
		paths = append(paths, u.Path)
	}
	snap.Unread = append(paths, snap.Unread...) // paths first: lists of the history keep the beginning
	return snap, nil
}

// onlyFiles returns the paths that name no database.
func onlyFiles(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { _, ok := segno.DatabaseName(p); return ok })
}

// find returns the database that a path of a plan names. isDatabase is false if the path does not name a database. The
// attachment is zero if the database is not attached.
func find(all []Attachment, path string) (a Attachment, isDatabase bool) {
	name, isDatabase := segno.DatabaseName(path)
	i := slices.IndexFunc(all, func(a Attachment) bool { return a.Name == name })
	if i < 0 {
		return a, isDatabase
	}
	return all[i], isDatabase
}

// UnreadDatabases returns the databases of a document that could not be read, with the reasons. The document may be nil.
func (w *Attached) UnreadDatabases(ctx context.Context, d *segno.Document) ([]segno.Conflict, error) {
	doc, err := readDocument(ctx, w.recent, d)
	if err != nil {
		return nil, err
	}
	return doc.unread(), nil
}

// DiffDatabases returns the changes that turn the databases of document a into those of b. It ignores databases that
// are not attached, or that one document does not describe. If a database is unread in one document, it always counts
// as changed, even between equal documents.
func (w *Attached) DiffDatabases(ctx context.Context, a, b *segno.Document) ([]segno.Change, error) {
	if a == nil || b == nil {
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
		if was != nil && is != nil && (was.entity() != is.entity() || is.Unread != "") {
			changes = append(changes, segno.Change{Path: segno.DatabasePath(at.Name), From: was.entity(), To: is.entity()})
		}
	}
	return changes, nil
}

// SavedDatabases returns the changes that make the attached databases with the states in a document, as a fork does.
func (w *Attached) SavedDatabases(ctx context.Context, d *segno.Document) (changes []segno.Change, err error) {
	all, err := w.options.List()
	if err != nil {
		return nil, err
	}
	doc, err := readDocument(ctx, w.recent, d)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		if s := doc.find(at.Name); s != nil && !s.Content.IsZero() {
			changes = append(changes, segno.Change{Path: segno.DatabasePath(at.Name), To: s.entity()})
		}
	}
	return changes, nil
}

// Apply writes databases and then files. It writes a database last if something else is in the place of its directory, which the
// files then make again. It never changes the file of an attached database as a file, although an older tree may contain it from
// before the database was attached.
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
	write := func(at Attachment, step segno.Change) error {
		why, err := w.write(ctx, at, step)
		if err == nil && why != "" {
			conflicts = append(conflicts, segno.Conflict{Path: step.Path, Why: why})
		}
		return err
	}
	var last []segno.Change
	for _, step := range steps {
		at, isDatabase := find(all, step.Path)
		switch {
		case isDatabase && at.Name == "":
			conflicts = append(conflicts, segno.Conflict{Path: step.Path, Why: "the database is not attached"})
		case isDatabase && at.isBelowRoot() && !hasDirectory(at.File(w.Root())):
			last = append(last, step)
		case isDatabase:
			if err := write(at, step); err != nil {
				return conflicts, err
			}
		case own[Attachment{Path: step.Path}.File(w.Root())]:
			conflicts = append(conflicts, segno.Conflict{Path: step.Path, Why: segno.WhyDatabase})
		default:
			files = append(files, step)
		}
	}
	more, err := w.Workspace.Apply(ctx, files, times)
	conflicts = append(conflicts, more...)
	for i := 0; err == nil && i < len(last); i++ {
		at, _ := find(all, last[i].Path)
		err = write(at, last[i])
	}
	return conflicts, err
}

// hasDirectory reports whether the deepest path above a file that exists is a directory, so that the others can be made in it.
func hasDirectory(path string) bool {
	for {
		up := filepath.Dir(path)
		fi, err := os.Lstat(up)
		if err == nil || up == path {
			return err == nil && fi.IsDir()
		}
		path = up
	}
}

// WithChanges implements [segno.Workspace.WithChanges]. A changed database gets its state from base
// if that is the state of the change, else its state from onto.
func (w *Attached) WithChanges(ctx context.Context, b segno.Batch, onto, base segno.Snapshot, changes []segno.Change) (segno.Snapshot, error) {
	var files []segno.Change
	to := map[string]segno.Entity{}
	for _, c := range changes {
		if name, ok := segno.DatabaseName(c.Path); ok {
			to[name] = c.To
		} else {
			files = append(files, c)
		}
	}
	out, err := w.Workspace.WithChanges(ctx, b, onto, base, files)
	if err != nil || len(to) == 0 || onto.World == nil || onto.World.Type != Format {
		return out, err
	}
	doc, err := readDocument(ctx, w.recent, onto.World)
	if err != nil {
		return out, err
	}
	other, err := readDocument(ctx, w.recent, base.World)
	if err != nil {
		return out, err
	}
	for i := range doc.Databases {
		s := &doc.Databases[i]
		if e, changes := to[s.Name]; changes {
			if o := other.find(s.Name); o != nil && o.entity() == e {
				*s = *o
			}
		}
	}
	out.World, err = w.putDocument(ctx, b, doc)
	return out, err
}

// lockName returns the argument of Lock for a database.
func (w *Attached) lockName(at Attachment) string {
	if at.Kind == KindPostgres {
		return at.label(w.Root(), w.options.Postgres)
	}
	return at.File(w.Root())
}

// write makes the change of a database, or returns the reason why it cannot.
func (w *Attached) write(ctx context.Context, at Attachment, step segno.Change) (conflict string, err error) {
	unlock, err := w.options.Lock(ctx, w.lockName(at))
	if err != nil {
		return "", err
	}
	defer unlock()
	if at.Kind == KindPostgres {
		return w.writePostgres(ctx, at, step.From, step.To)
	}
	r := restorer{w.recent, w.options.FS}
	return r.write(ctx, at.File(w.Root()), step.From, step.To, w.modeOf(at))
}

// modeOf returns the permissions of the file of a database, or those that it had when it was saved last.
func (w *Attached) modeOf(at Attachment) fs.FileMode {
	if fi, err := os.Lstat(at.File(w.Root())); err == nil && fi.Mode().IsRegular() {
		return fi.Mode().Perm()
	}
	return cmp.Or(w.options.Cache.read()[at.Name].Mode, 0o600)
}

// Fork copies the tree and the databases of the snapshot.
func (w *Attached) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	all, err := w.options.List()
	if err != nil {
		return segno.ForkReport{}, err
	}
	doc, err := readDocument(ctx, w.recent, s.World)
	if err != nil {
		return segno.ForkReport{}, err
	}
	if err := w.checkFork(ctx, all, doc, dir); err != nil {
		return segno.ForkReport{}, err
	}
	report, err := w.Workspace.Fork(ctx, s, dir)
	if err != nil {
		return report, err
	}
	w.copies = nil
	copies := inFork(all, report.Root)
	for i, at := range all {
		state, copied := doc.find(at.Name), copies[i]
		switch {
		case state != nil && state.Missing, state == nil && at.isBelowRoot(): // the tree may contain its file
			w.copies = append(w.copies, copied)
		case state == nil || state.Content.IsZero() || at.Kind != state.Kind:
			why := "it was attached after the checkpoint"
			if state != nil {
				why = "it was not saved: " + state.Unread
			}
			report.Unsaved = append(report.Unsaved, segno.Conflict{Path: segno.DatabasePath(at.Name), Why: why})
		default:
			if err := w.forkOne(ctx, at, copied, state.Content, &report); err != nil {
				return report, err
			}
			w.copies = append(w.copies, copied)
		}
	}
	return report, nil
}

// checkFork checks, before anything is written, that the copy of each database can be made.
func (w *Attached) checkFork(ctx context.Context, all []Attachment, doc *document, dir string) error {
	copies := inFork(all, dir)
	for i, at := range all {
		copied, state := copies[i], doc.find(at.Name)
		switch {
		case state == nil || state.Content.IsZero():
		case at.Kind == KindPostgres:
			if err := w.checkPostgresFork(ctx, at, copied); err != nil {
				return err
			}
		case at.Path != copied.Path && exists(copied.Path):
			return segno.Errorf(segno.KindConflict, "fork database", copied.Path, "already exists").
				WithHint("move it, or give another directory with --to")
		}
	}
	return nil
}

// forkOne makes the copy of a database with a saved content.
func (w *Attached) forkOne(ctx context.Context, at, copied Attachment, content segno.Hash, report *segno.ForkReport) error {
	name := copied.File(report.Root)
	if at.Kind == KindPostgres {
		var lost []string
		var err error
		if name, lost, err = w.forkPostgres(ctx, at, copied, content); err != nil {
			return err
		}
		for _, l := range lost {
			report.Unsaved = append(report.Unsaved, segno.Conflict{Path: segno.DatabasePath(at.Name), Why: "the copy is without " + l})
		}
	} else {
		pages, err := readPages(ctx, w.recent, content)
		if err != nil {
			return err
		}
		r := restorer{w.recent, w.options.FS}
		conflict, err := r.create(ctx, name, pages, w.modeOf(at))
		if err == nil && conflict != "" {
			err = segno.Errorf(segno.KindConflict, "fork database", name, "already exists").WithHint("move it, or give another directory with --to")
		}
		if err != nil {
			return err
		}
	}
	report.Databases = append(report.Databases, name)
	return nil
}

// Copies returns the attachments of the newest fork. It has no attachment for a database that the
// fork lacks.
func (w *Attached) Copies() []Attachment { return w.copies }

// DatabasePages returns the number of pages that a change writes or removes. It is 0 for a
// PostgreSQL database.
func (w *Attached) DatabasePages(ctx context.Context, c segno.Change) (int, error) {
	before, after, err := w.pgStates(ctx, c)
	if err != nil || before != nil || after != nil {
		return 0, err
	}
	from, err := readPages(ctx, w.recent, c.From.Hash)
	if err != nil {
		return 0, err
	}
	to, err := readPages(ctx, w.recent, c.To.Hash)
	return differing(from, to), err
}

// DatabaseTables returns the tables that a change writes or removes. It reads all pages of a SQLite database. For a
// large one, it returns none.
func (w *Attached) DatabaseTables(ctx context.Context, c segno.Change) ([]segno.TableChange, error) {
	before, after, err := w.pgStates(ctx, c)
	if err != nil {
		return nil, err
	}
	if before != nil || after != nil {
		return diffTables(before, after), nil
	}
	return diffSQLiteTables(ctx, w.recent, c)
}

// pgStates returns the states of a change of a PostgreSQL database.
func (w *Attached) pgStates(ctx context.Context, c segno.Change) (before, after *pgState, err error) {
	if before, err = readPgState(ctx, w.recent, c.From.Hash); err != nil {
		return nil, nil, err
	}
	after, err = readPgState(ctx, w.recent, c.To.Hash)
	return before, after, err
}

// DatabaseClients describes the other programs that have a database open.
func (w *Attached) DatabaseClients(ctx context.Context, c segno.Change) ([]string, error) {
	all, err := w.options.List()
	if err != nil {
		return nil, err
	}
	at, _ := find(all, c.Path)
	if at.Kind != KindPostgres {
		return clients(at.File(w.Root())), nil
	}
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	if _, err := s.open(ctx, ""); err != nil {
		return nil, nil // writing the database fails, too, and returns the reason
	}
	found, err := s.clients(ctx)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "look for clients", at.Name, err)
	}
	return found, nil
}

// CheckDatabase returns an error if the store lacks a part of the state e.
func (w *Attached) CheckDatabase(ctx context.Context, e segno.Entity) error {
	state, err := readPgState(ctx, w.recent, e.Hash)
	if err != nil {
		return err
	}
	lists := []segno.Hash{e.Hash}
	if state != nil {
		lists = state.texts()
	}
	checked := map[segno.Hash]bool{}
	for _, list := range lists {
		parts, err := readPages(ctx, w.recent, list)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if checked[p] {
				continue
			}
			checked[p] = true
			if _, err := w.recent.Get(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}
