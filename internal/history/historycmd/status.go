package historycmd

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "the state of this directory", Args: cobra.NoArgs,
		Example: "  segno status --json",
		RunE:    a.InWorkspace(a.runStatus),
	}
}

type statusResult struct {
	Workspace segno.WorkspaceID   `json:"workspace"`
	Dir       string              `json:"dir"`
	Store     string              `json:"store"`
	Thread    segno.ThreadID      `json:"thread"`
	Head      *history.Item       `json:"head"`
	Session   segno.SessionID     `json:"session"`
	Changed   segno.Counts        `json:"changed"`             // differences from the head
	Held      []string            `json:"held,omitempty"`      // recorded although a rule protects them now
	Unread    []string            `json:"unread,omitempty"`    // files and directories that cannot be saved
	ReadOnly  bool                `json:"read_only,omitempty"` // the store cannot be written; Changed is not known
	Full      bool                `json:"full,omitempty"`      // because its disk is full
	Open      []openItem          `json:"open"`                // turns under way
	Requested []history.Requested `json:"requested,omitempty"` // moves that wait for the end of a turn
	Waiting   int                 `json:"waiting"`             // commits that wait for the store
	Moving    bool                `json:"moving"`              // a move was interrupted; the next command that moves or records completes it
	Pulling   bool                `json:"pulling,omitempty"`   // a pull into the directory was interrupted or runs; files are missing
	Sealed    *local.Sealed       `json:"sealed,omitempty"`    // the key file of a sealed store

	Databases []cli.AttachedItem `json:"databases,omitempty"` // attached to the workspace

	Watch *workspace.WatchStats `json:"watch,omitempty"` // of the 'segno watch' that serves the workspace

	Purges []purgeItem `json:"purges"` // sessions that agents may soon delete

	Unrecorded []unrecordedItem `json:"unrecorded,omitempty"` // sessions here without a turn

	DirBytes    []byte   `json:"dir_bytes,omitempty"`
	StoreBytes  []byte   `json:"store_bytes,omitempty"`
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`
}

// openItem is an open turn in a result.
type openItem struct {
	Key     segno.TurnKey   `json:"key"`
	Thread  segno.ThreadID  `json:"thread"`
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Prompt  string          `json:"prompt"`
	Start   string          `json:"start"`
	start   time.Time
	PID     int `json:"pid"`

	Background bool            `json:"background"` // the turn has ended, but its tasks still run
	Tasks      []timeline.Task `json:"tasks"`
}

func newOpenItem(t timeline.OpenTurn) openItem {
	return openItem{Background: t.InBackground(), Tasks: append([]timeline.Task{}, t.Tasks...), Key: t.Key, Thread: t.Thread,
		Agent: t.Agent, Session: t.Source.Session, Prompt: t.Prompt, Start: t.Start.UTC().Format(time.RFC3339Nano), start: t.Start, PID: t.PID}
}

func (a *app) runStatus(ctx context.Context, d *cli.Workspace, _ []string) error {
	place := d.Store.Place()
	s := statusResult{Workspace: d.Rec.ID, Dir: d.Rec.Path, Store: place.Store, Open: []openItem{}, ReadOnly: d.Store.ReadOnly(), Full: d.Store.Full(), Sealed: d.Store.Sealed(),
		DirBytes: segno.PathBytes(d.Rec.Path), StoreBytes: segno.PathBytes(place.Store)}
	if err := s.readSpool(ctx, d); err != nil {
		return err
	}
	var err error
	if s.Databases, err = d.Attached(); err != nil {
		return err
	}
	plan, err := d.Timeline.Spool.ReadPlan(ctx, d.Rec.ID)
	if err != nil {
		return err
	}
	s.Moving = plan != nil
	if s.Thread, err = d.Timeline.CurrentThread(ctx); err != nil {
		return err
	}
	if s.Thread != "" {
		if err := s.readHead(ctx, d); err != nil {
			return err
		}
	}
	if w, err := d.Store.WatchStats(d.Rec.ID); err == nil {
		s.Watch = &w
	}
	if s.Purges, err = a.findPurges(ctx, d.Store); err != nil {
		return err
	}
	if s.Unrecorded, err = findUnrecorded(ctx, d.Store, d.Rec.Path); err != nil {
		return err
	}
	return a.Print(s, func(p *cli.Printer) {
		writeStatus(p, s)
		a.writePurges(p, s.Purges)
		for _, u := range s.Unrecorded {
			p.Linef("%s; run 'segno doctor'", p.Warn(u.text()))
		}
	})
}

// readSpool reads the open turns of the workspace and counts the commits that wait for the store.
// A turn in the background is listed while a task of it runs.
func (s *statusResult) readSpool(ctx context.Context, d *cli.Workspace) error {
	spool := d.Timeline.Spool
	turns, err := spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Workspace != d.Rec.ID {
			continue
		}
		item := newOpenItem(t)
		if item.Background {
			if item.Tasks, err = d.Timeline.RunningTasks(ctx, &t); err != nil {
				return err
			}
			if len(item.Tasks) == 0 {
				continue
			}
		}
		s.Open = append(s.Open, item)
	}
	if s.Requested, err = listRequested(ctx, d); err != nil {
		return err
	}
	waiting, err := spool.ListDeferred(ctx)
	s.Waiting = len(waiting)
	return err
}

// readHead reads the checkpoint at the head and compares the present files with it. The result has
// no session if the head is before the first prompt of an agent with transcripts.
func (s *statusResult) readHead(ctx context.Context, d *cli.Workspace) error {
	h, err := history.Read(ctx, d.Store, s.Thread)
	if err != nil {
		return err
	}
	c, err := h.Find("@")
	if err != nil {
		return err
	}
	item := h.Item(c)
	s.Head = &item
	if c.Session == nil || c.Session.Leaf != "" || d.Timeline.Transcripts[c.Session.Agent] == nil {
		s.Session = h.Head.Link.Session
	}
	if c.Tree().IsZero() || s.ReadOnly {
		return nil
	}
	s.Pulling = s.Thread == d.Rec.State.Thread && d.Rec.State.Snapshot == nil
	now, err := d.Timeline.Snapshot(ctx)
	if err != nil {
		return err
	}
	s.Held = now.Held
	s.Unread, _ = history.Unread(&now) // the output lists the databases separately
	s.UnreadBytes = history.PathsBytes(s.Unread)
	changes, err := d.Timeline.Databases(ctx, c.Workspace, &now)
	if err != nil {
		return err
	}
	unread, err := d.Timeline.UnreadDatabases(ctx, &now)
	if err != nil {
		return err
	}
	for i := range s.Databases {
		s.Databases[i].Compare(changes, unread)
	}
	s.Changed, err = d.Timeline.CountSince(ctx, c, &now)
	return err
}

func writeStatus(p *cli.Printer, s statusResult) {
	p.Linef("workspace  %s\nstore      %s", cli.QuotePath(s.Dir), cli.QuotePath(s.Store))
	if s.Sealed != nil {
		p.Linef("           sealed; its key is in %s", cli.QuotePath(s.Sealed.KeyFile))
	}
	if s.Watch != nil {
		p.Linef("watched    %s", cli.WatchText(*s.Watch))
	}
	if s.Full {
		p.Linef("           its disk is full: segno records nothing and moves nothing until there is space")
	} else if s.ReadOnly {
		p.Linef("           read-only: segno records nothing and moves nothing")
	}
	writeHead(p, s)
	for _, at := range s.Databases {
		state := ""
		switch {
		case at.Unread != "":
			state = p.Warn(", not saved: " + cli.Inline(at.Unread))
		case at.Changed:
			state = ", changed since then"
		}
		if place := at.Place(); place != "" {
			state = ", here " + place + state
		}
		p.Linef("database   %s%s", cli.QuotePath(at.Name), state)
	}
	for _, t := range s.Open {
		what := "open turn "
		if t.Background {
			what = "background"
		}
		p.Linef("%s %s (session %s, pid %d): %s", what, cli.Clean(t.Agent), cli.Clean(string(t.Session)), t.PID, cli.Clean(timeline.Title(t.Prompt)))
		for _, task := range t.Tasks {
			p.Linef("           %s %s is running: %s", cli.Clean(task.Kind), cli.Clean(task.ID), cli.Clean(timeline.Title(task.What)))
		}
	}
	writeRequested(p, s.Requested)
	if s.Waiting > 0 {
		p.Linef("waiting    %s: the store was busy; the next command that moves or records retries", cli.Plural(s.Waiting, "commit"))
	}
	if s.Moving {
		p.Linef("a move was interrupted; the next command that moves or records completes it")
	}
	if s.Pulling {
		p.Linef("a pull into this directory has not ended, and files are missing; run 'segno pull' for the thread again")
	}
}

// writeHead writes where the thread is, and what changed since.
func writeHead(p *cli.Printer, s statusResult) {
	if s.Head == nil {
		p.Linef("thread     none yet; prompt the agent once, or run 'segno save'")
		return
	}
	p.Linef("thread     %s at t%d (%s)", cli.Short(s.Thread), s.Head.Turn, s.Head.Kind)
	if s.Session != "" {
		p.Linef("session    %s", cli.Inline(string(s.Session)))
	}
	changed := cmp.Or(cli.Counts(s.Changed), "nothing")
	if s.ReadOnly {
		changed = "unknown"
	}
	p.Linef("changed    %s since then", changed)
	writeCoverage(p, s)
}

// writeCoverage warns about files that segno cannot save or no longer records, and about files that
// it records although a rule protects them.
func writeCoverage(p *cli.Printer, s statusResult) {
	warning := p.Warn("warning") + "    "
	if n := s.Head.Files.Protected; n > 0 {
		p.Linef("%s%s of its parent are protected here; undoing a later turn does not restore them", warning, cli.Files(n))
	}
	if n := s.Changed.Protected; n > 0 {
		p.Linef("%s%s now protected; changes of them are no longer recorded", warning, cli.Files(n))
	}
	if len(s.Unread) > 0 {
		p.Linef("%s%s", warning, unreadNote(s.Unread))
	}
	if len(s.Held) > 0 {
		p.Linef("%sstill recorded although a rule that was added during a turn protects it: %s; 'segno save' accepts the rule",
			warning, abbreviated(s.Held))
	}
}
