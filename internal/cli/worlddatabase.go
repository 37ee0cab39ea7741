package cli

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/worlds/database"
)

func (a *app) worldAttach() *cobra.Command {
	return &cobra.Command{
		Use: "attach FILE|URL", Short: "make a development database move with undo, restore and fork", Args: cobra.ExactArgs(1),
		Long: `Attaches the SQLite database in FILE, or the PostgreSQL database of URL, to the workspace. Each turn that changes it then has its
content, and undo, redo, restore and fork move it together with the files and the conversation.
A change costs the space of the changed pages. Snapshots of the workspace no longer
contain the files of the database.

A move of the database is one transaction of SQLite. It is refused while another process has
the database open, unless --while-running is set. The copy of a fork is at the same place in its
directory, or beside the directory if the database is outside the workspace.

A PostgreSQL database is saved with pg_dump and COPY, in the version of the server or a newer
one, and a move replaces its objects and rows in one transaction. A fork gets a database with
the name of its directory. Only a server of this machine is allowed, or one that is listed in
SEGNO_DATABASE_HOSTS. The password of the URL is kept in the store.

The database is read once in full. It is not attached if that fails: the role must be able to
read all of it, and the error names the grant that is missing.`,
		Example: "  segno world attach dev.db\n  segno world attach postgres://localhost/dev",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.openOrRegister(c.Context())
			if err != nil {
				return err
			}
			defer d.Close()
			return a.runWorldAttach(c.Context(), d, args[0])
		},
	}
}

func (a *app) worldDetach() *cobra.Command {
	return &cobra.Command{
		Use: "detach FILE|URL", Short: "a database does not move any more", Args: cobra.ExactArgs(1),
		Long: `Detaches a database from the workspace. The database stays as it is. If it is in the
workspace, it is a file of the snapshots again.`,
		Example: "  segno world detach dev.db",
		RunE: a.inWorkspace(func(ctx context.Context, d *openWorkspace, args []string) error {
			return a.runWorldDetach(ctx, d, args[0])
		}),
	}
}

// attachedItem is an attached database in a result.
type attachedItem struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // absolute; "" for a database on a server
	// Changed is set by status if the database differs from the head.
	Changed bool `json:"changed,omitempty"`
	// Unread is the reason why the database cannot be read. status and doctor set it. Hint is set only by doctor.
	Unread string `json:"unread,omitempty"`
	Hint   string `json:"hint,omitempty"`

	PathBytes []byte `json:"path_bytes,omitempty"`
}

func newAttachedItem(root string, at database.Attachment) attachedItem {
	if at.Kind == database.KindPostgres {
		return attachedItem{Name: at.Name, Kind: at.Kind}
	}
	file := at.File(root)
	return attachedItem{Name: at.Name, Kind: at.Kind, Path: file, PathBytes: segno.PathBytes(file)}
}

func (a *app) runWorldAttach(ctx context.Context, d *openWorkspace, name string) error {
	const op = "attach database"
	at, err := a.newAttachment(ctx, d, name)
	if err != nil {
		return err
	}
	all, err := d.store.Databases(d.rec.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(x database.Attachment) bool { return x.Name == at.Name || x.Path != "" && x.Path == at.Path }) {
		return segno.Errorf(segno.KindConflict, op, at.Name, "it is attached already")
	}
	if err := d.store.TryDatabase(ctx, op, d.rec, at); err != nil {
		return err
	}
	unread, err := a.changeAttached(ctx, d, op, append(all, at), "attach "+at.Name)
	if err != nil {
		return err
	}
	return withUnread(a.print(newAttachedItem(d.rec.Path, at), func(p *printer) {
		p.linef("attached %s: from now on it moves with the files", quotePath(at.Name))
		p.unreadDatabases(unread)
	}), unread)
}

// newAttachment returns the attachment of the database that an argument names.
func (a *app) newAttachment(ctx context.Context, d *openWorkspace, name string) (database.Attachment, error) {
	const op = "attach database"
	if database.IsPostgresURL(name) {
		return database.NewPostgres(ctx, a.Postgres, name, strings.Split(a.Getenv("SEGNO_DATABASE_HOSTS"), ","))
	}
	if scheme, ok := urlScheme(name); ok {
		return database.Attachment{}, segno.Errorf(segno.KindInvalid, op, redactURL(name), "unknown kind of database %q", scheme).
			WithHint("name the file of a SQLite database, or a URL like postgres://localhost/dev")
	}
	at, err := database.New(d.rec.Path, absolute(d.dir, name))
	if err == nil && isBelow(d.store.Place().Store, at.File(d.rec.Path)) {
		err = segno.Errorf(segno.KindRefused, op, name, "it is part of segno's store")
	}
	return at, err
}

func (a *app) runWorldDetach(ctx context.Context, d *openWorkspace, name string) error {
	const op = "detach database"
	all, err := d.store.Databases(d.rec.ID)
	if err != nil {
		return err
	}
	if database.IsPostgresURL(name) {
		name = database.PostgresName(a.Postgres, name)
	}
	file := absolute(d.dir, name)
	real, _ := filepath.EvalSymlinks(file) // a deleted database has no resolved path
	i := slices.IndexFunc(all, func(x database.Attachment) bool {
		return x.Name == name || x.Kind == database.KindSQLite && slices.Contains([]string{file, cmp.Or(real, file)}, x.File(d.rec.Path))
	})
	if i < 0 {
		return segno.Errorf(segno.KindNotFound, op, name, "it is not attached").WithHint("run 'segno world list'")
	}
	at := all[i]
	unread, err := a.changeAttached(ctx, d, op, slices.Delete(all, i, i+1), "detach "+at.Name)
	if err != nil {
		return err
	}
	return withUnread(a.print(newAttachedItem(d.rec.Path, at), func(p *printer) {
		p.linef("detached %s: it stays as it is", quotePath(at.Name))
		p.unreadDatabases(unread)
	}), unread)
}

// changeAttached replaces the list of attached databases. It saves a checkpoint with the new tiers, so that the change
// is not part of a later turn. It returns the databases that the checkpoint lacks.
func (a *app) changeAttached(ctx context.Context, d *openWorkspace, op string, all []database.Attachment, label string) ([]history.UnreadDatabase, error) {
	if err := d.timeline.CloseAbandonedTurns(ctx); err != nil {
		return nil, err
	}
	turns, err := d.timeline.Spool.Turns(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		if t.Workspace == d.rec.ID {
			return nil, segno.Errorf(segno.KindRefused, op, d.rec.Path, "a turn of %s (pid %d) is open", t.Agent, t.PID).WithHint("wait for it to end")
		}
	}
	if err := d.store.SetDatabases(d.rec.ID, all); err != nil {
		return nil, err
	}
	thread, err := d.timeline.CurrentThread(ctx)
	if err != nil || thread == "" {
		return nil, err
	}
	cp, err := d.timeline.Save(ctx, segno.CheckpointSave, label)
	if err != nil {
		return nil, err
	}
	return unreadDatabases(ctx, d, cp)
}

// attachedHere returns the databases that are attached to the workspace of the directory, if there is one.
func (a *app) attachedHere(ctx context.Context) (items []attachedItem, err error) {
	place, dir, err := a.placeAndDir()
	if err != nil || !place.Exists() {
		return nil, err
	}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	d := &openWorkspace{store: store, dir: dir}
	if err := d.find(ctx, false); segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return d.attached()
}

func (d *openWorkspace) attached() (items []attachedItem, err error) {
	all, err := d.store.Databases(d.rec.ID)
	for _, at := range all {
		items = append(items, newAttachedItem(d.rec.Path, at))
	}
	return items, err
}

// describe returns the kind of a database for text output, and its place if the name does not
// contain it.
func (i attachedItem) describe() string {
	if i.Kind == database.KindPostgres {
		return "PostgreSQL database, attached"
	}
	if strings.HasSuffix(i.Path, i.Name) {
		return "SQLite database, attached"
	}
	return "SQLite database, attached: " + quotePath(i.Path)
}
