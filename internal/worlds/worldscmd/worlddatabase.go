package worldscmd

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/history"
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
			d, err := a.OpenOrRegister(c.Context())
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
		RunE: a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
			return a.runWorldDetach(ctx, d, args[0])
		}),
	}
}

func (a *app) runWorldAttach(ctx context.Context, d *cli.Workspace, name string) error {
	const op = "attach database"
	at, err := a.newAttachment(ctx, d, name)
	if err != nil {
		return err
	}
	all, err := d.Store.Databases(d.Rec.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(x database.Attachment) bool {
		return x.Name == at.Name || x.Path != "" && x.Path == at.Path || at.URL != "" && x.ServerName() == at.Name
	}) {
		return segno.Errorf(segno.KindConflict, op, at.Name, "it is attached already")
	}
	if err := d.Store.TryDatabase(ctx, op, d.Rec, at); err != nil {
		return err
	}
	unread, err := a.changeAttached(ctx, d, op, append(all, at), "attach "+at.Name)
	if err != nil {
		return err
	}
	return cli.WithUnread(a.Print(cli.NewAttachedItem(d.Rec.Path, at), func(p *cli.Printer) {
		p.Linef("attached %s: from now on it moves with the files", cli.QuotePath(at.Name))
		p.UnreadDatabases(unread)
	}), unread)
}

// newAttachment returns the attachment of the database that an argument names.
func (a *app) newAttachment(ctx context.Context, d *cli.Workspace, name string) (database.Attachment, error) {
	const op = "attach database"
	if database.IsPostgresURL(name) {
		return database.NewPostgres(ctx, a.Postgres, name, strings.Split(a.Getenv("SEGNO_DATABASE_HOSTS"), ","))
	}
	if scheme, ok := cli.URLScheme(name); ok {
		return database.Attachment{}, segno.Errorf(segno.KindInvalid, op, cli.RedactURL(name), "unknown kind of database %q", scheme).
			WithHint("name the file of a SQLite database, or a URL like postgres://localhost/dev")
	}
	at, err := database.New(d.Rec.Path, cli.Absolute(d.Dir, name))
	if err == nil && cli.IsBelow(d.Store.Place().Store, at.File(d.Rec.Path)) {
		err = segno.Errorf(segno.KindRefused, op, name, "it is part of segno's store")
	}
	return at, err
}

func (a *app) runWorldDetach(ctx context.Context, d *cli.Workspace, name string) error {
	const op = "detach database"
	all, err := d.Store.Databases(d.Rec.ID)
	if err != nil {
		return err
	}
	if database.IsPostgresURL(name) {
		name = database.PostgresName(a.Postgres, name)
	}
	file := cli.Absolute(d.Dir, name)
	real, _ := filepath.EvalSymlinks(file) // a deleted database has no resolved path
	i := slices.IndexFunc(all, func(x database.Attachment) bool {
		return x.Name == name || name != "" && x.ServerName() == name || x.Kind == database.KindSQLite && slices.Contains([]string{file, cmp.Or(real, file)}, x.File(d.Rec.Path))
	})
	if i < 0 {
		return segno.Errorf(segno.KindNotFound, op, name, "it is not attached").WithHint("run 'segno world list'")
	}
	at := all[i]
	unread, err := a.changeAttached(ctx, d, op, slices.Delete(all, i, i+1), "detach "+at.Name)
	if err != nil {
		return err
	}
	return cli.WithUnread(a.Print(cli.NewAttachedItem(d.Rec.Path, at), func(p *cli.Printer) {
		p.Linef("detached %s: it stays as it is", cli.QuotePath(at.Name))
		p.UnreadDatabases(unread)
	}), unread)
}

// changeAttached replaces the list of attached databases. It saves a checkpoint with the new tiers, so that the change
// is not part of a later turn. It returns the databases that the checkpoint lacks.
func (a *app) changeAttached(ctx context.Context, d *cli.Workspace, op string, all []database.Attachment, label string) ([]history.UnreadDatabase, error) {
	if err := d.Timeline.CloseAbandonedTurns(ctx); err != nil {
		return nil, err
	}
	turns, err := d.Timeline.Spool.Turns(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		if t.Workspace == d.Rec.ID {
			return nil, segno.Errorf(segno.KindRefused, op, d.Rec.Path, "a turn of %s (pid %d) is open", t.Agent, t.PID).WithHint("wait for it to end")
		}
	}
	if err := d.Store.SetDatabases(d.Rec.ID, all); err != nil {
		return nil, err
	}
	thread, err := d.Timeline.CurrentThread(ctx)
	if err != nil || thread == "" {
		return nil, err
	}
	cp, err := d.Timeline.Save(ctx, segno.CheckpointSave, label)
	if err != nil {
		return nil, err
	}
	return cli.UnreadDatabases(ctx, d, cp)
}

// attachedHere returns the databases that are attached to the workspace of the directory, if there is one.
func (a *app) attachedHere(ctx context.Context) (items []cli.AttachedItem, err error) {
	place, dir, err := a.PlaceAndDir()
	if err != nil || !place.Exists() {
		return nil, err
	}
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	d := &cli.Workspace{Store: store, Dir: dir}
	if err := d.Find(ctx, false); segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return d.Attached()
}
