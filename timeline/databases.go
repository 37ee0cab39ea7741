package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// databases is the ability of a [segno.Workspace] to have attached databases; package internal/database
// implements it. A change of a database is a [segno.Change] with the path [segno.DatabasePath].
type databases interface {
	// UnreadDatabases returns the databases of a document that could not be read, with the reasons. d may be
	// nil.
	UnreadDatabases(ctx context.Context, d *segno.Document) ([]segno.Conflict, error)
	// DiffDatabases returns the changes that turn the databases of document a into those of b. Either may be
	// nil. A database that could not be read is a change from or to [segno.EntityProtected].
	DiffDatabases(ctx context.Context, a, b *segno.Document) ([]segno.Change, error)
	// SavedDatabases returns the changes that make the attached databases with the states in a document, which may be nil.
	SavedDatabases(ctx context.Context, d *segno.Document) ([]segno.Change, error)
	// DatabasePages returns how many pages a change writes or removes.
	DatabasePages(ctx context.Context, c segno.Change) (int, error)
	// DatabaseTables returns the tables that a change writes or removes.
	DatabaseTables(ctx context.Context, c segno.Change) ([]segno.TableChange, error)
	// DatabaseClients describes the other programs that have the database of a change open.
	DatabaseClients(ctx context.Context, c segno.Change) ([]string, error)
	// CheckDatabase returns an error if the store lacks a part of a state.
	CheckDatabase(ctx context.Context, e segno.Entity) error
}

// DatabaseStep is a database that a plan writes.
type DatabaseStep struct {
	Name   string
	Pages  int                 // the number of pages that differ; 0 if the database is not saved in pages
	Tables []segno.TableChange // the tables that differ
	Unread string              // why the difference is unknown, or ""
}

// diffStates returns the changes of files and databases that turn state a into b.
func (tx *txn) diffStates(ctx context.Context, a, b *segno.Snapshot) ([]segno.Change, error) {
	changes, err := tx.diff(ctx, a.Tree, b.Tree)
	if err != nil {
		return nil, err
	}
	more, err := tx.Databases(ctx, a, b)
	return append(changes, more...), err
}

// Databases returns the changes that turn the attached databases of snapshot a into those of b. Either may be
// nil.
func (tl *Timeline) Databases(ctx context.Context, a, b *segno.Snapshot) ([]segno.Change, error) {
	ws, ok := tl.Workspace.(databases)
	if !ok || a == nil || b == nil {
		return nil, nil
	}
	return ws.DiffDatabases(ctx, a.World, b.World)
}

// DatabaseSteps returns the changes of databases among changes. It finds the tables of a database in pages
// only if tables is set, because that reads all pages.
func (tl *Timeline) DatabaseSteps(ctx context.Context, changes []segno.Change, tables bool) (steps []DatabaseStep, err error) {
	ws, ok := tl.Workspace.(databases)
	if !ok {
		return nil, nil
	}
	for _, c := range changes {
		name, is := segno.DatabaseName(c.Path)
		if !is {
			continue
		}
		step := DatabaseStep{Name: name, Unread: unreadReason(c)}
		if step.Unread != "" {
			steps = append(steps, step)
			continue
		}
		if step.Pages, err = ws.DatabasePages(ctx, c); err != nil {
			return nil, err
		}
		if tables || step.Pages == 0 {
			if step.Tables, err = ws.DatabaseTables(ctx, c); err != nil {
				return nil, err
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// unreadReason returns why the change of a database is unknown, or "". It is unknown if one of its states was
// not saved.
func unreadReason(c segno.Change) string {
	_, isDatabase := segno.DatabaseName(c.Path)
	switch {
	case !isDatabase:
	case c.To.Type == segno.EntityProtected:
		return "not saved: " + c.To.Why
	case c.From.Type == segno.EntityProtected:
		return "its change is not known, because the state before was not saved: " + c.From.Why
	}
	return ""
}

// unreadConflict returns why a move cannot write a database, or "": one of the states that the move compares
// was not saved. present is the current state, left the state from which the move starts, and target the
// state to which it goes. A state that was not saved never equals another one, even if the reasons are the
// same.
func unreadConflict(path string, present, left, target segno.Entity) string {
	_, isDatabase := segno.DatabaseName(path)
	switch {
	case !isDatabase:
	case present.Type == segno.EntityProtected:
		return "is not saved and not moved: " + present.Why
	case target.Type == segno.EntityProtected:
		return "was not saved then: " + target.Why
	case left.Type == segno.EntityProtected:
		return "may have changed since, because it was not saved: " + left.Why
	}
	return ""
}

// UnreadDatabases returns the attached databases that a snapshot lacks because they could not be read, with
// the reasons. The snapshot may be nil.
func (tl *Timeline) UnreadDatabases(ctx context.Context, s *segno.Snapshot) ([]segno.Conflict, error) {
	ws, ok := tl.Workspace.(databases)
	if !ok || s == nil {
		return nil, nil
	}
	return ws.UnreadDatabases(ctx, s.World)
}

// listUnread adds to a plan the databases that cannot be read now, so that no move leaves them out silently.
// A move that is limited to some paths or to the conversation writes no databases and is complete without
// them.
func (tx *txn) listUnread(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	unread, err := tx.UnreadDatabases(ctx, &now.snap)
	for _, u := range unread {
		isListed := func(c segno.Conflict) bool { return c.Path == u.Path }
		switch u.Why = "is not saved and not moved: " + u.Why; {
		case slices.ContainsFunc(p.Conflicts, isListed):
		case len(ask.Paths) > 0 || ask.Scope == ScopeChat:
			p.Kept = append(p.Kept, u)
		default:
			p.Conflicts = append(p.Conflicts, u)
		}
	}
	p.sortPaths()
	return err
}

// unreadWarning returns a warning about the databases that a snapshot lacks, or "". known is an earlier
// snapshot, about which the user already got a warning; it may be nil.
func (tx *txn) unreadWarning(ctx context.Context, s, known *segno.Snapshot) string {
	unread, err := tx.UnreadDatabases(ctx, s)
	if err != nil {
		return "" // the turn is still recorded
	}
	var lines []string
	for _, u := range unread {
		if known == nil || !slices.Contains(known.Unread, u.Path) {
			lines = append(lines, fmt.Sprintf("segno: the %s is not saved, and undo does not move it: %s", segno.QuotePath(u.Path), u.Why))
		}
	}
	return strings.Join(lines, "\n")
}

// refuseClients refuses a plan that writes a database that another program has open. The database protects
// its content, but the program may hold rows in memory that the move replaced.
func (tx *txn) refuseClients(ctx context.Context, ask MoveRequest, p *Plan) error {
	ws, ok := tx.Workspace.(databases)
	if !ok || ask.WhileRunning {
		return nil
	}
	for _, step := range p.Steps {
		name, is := segno.DatabaseName(step.Path)
		if !is {
			continue
		}
		all, err := ws.DatabaseClients(ctx, step)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			return segno.Errorf(segno.KindRefused, string(ask.Verb), name, "the database is open in %s", strings.Join(all, ", ")).
				WithHint("end the program, or use --while-running")
		}
	}
	return nil
}

// checkReadableDatabase is checkReadable for the state of a database.
func (tx *txn) checkReadableDatabase(ctx context.Context, e segno.Entity) error {
	if ws, ok := tx.Workspace.(databases); ok {
		return ws.CheckDatabase(ctx, e)
	}
	return nil
}

// operationState returns the state before or after an operation. Its databases are those of the checkpoint at
// the head.
func (tx *txn) operationState(ctx context.Context, at segno.Pointers) (*segno.Snapshot, error) {
	s := &segno.Snapshot{Tree: at.Tree}
	if _, ok := tx.Workspace.(databases); !ok {
		return s, nil
	}
	cp, err := tx.checkpoint(ctx, at.Head)
	if segno.KindOf(err) == segno.KindNotFound {
		return s, nil // a collection removed the checkpoint
	}
	if err == nil && cp.Workspace != nil {
		s.World = cp.Workspace.World
	}
	return s, err
}

// operationStates returns the states before and after an operation.
func (tx *txn) operationStates(ctx context.Context, op *segno.Operation) (before, after *segno.Snapshot, err error) {
	if before, err = tx.operationState(ctx, op.Before); err == nil {
		after, err = tx.operationState(ctx, op.After)
	}
	return before, after, err
}

// reverseOperation adds the changes that undo an operation.
func (r *reverter) reverseOperation(ctx context.Context, op *segno.Operation) error {
	before, after, err := r.operationStates(ctx, op)
	if err != nil {
		return err
	}
	changes, err := r.diffStates(ctx, before, after)
	if err != nil {
		return err
	}
	written := make(map[string]bool, len(changes))
	for _, c := range changes {
		written[c.Path] = isSaved(c.From) || isSaved(c.To) // no operation writes protected paths
	}
	return r.reverse(ctx, after, before, nil, func(path string) bool { return written[path] })
}

// OnlyDatabases reports whether a plan's steps write no files.
func OnlyDatabases(steps []segno.Change) bool {
	return !slices.ContainsFunc(steps, func(c segno.Change) bool { _, ok := segno.DatabaseName(c.Path); return !ok })
}
