package historycmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// stateResult is what 'segno' without arguments shows of a directory. It is read without a scan of the files, and nothing is
// written for it.
type stateResult struct {
	Dir    string        `json:"dir"`
	Root   string        `json:"root,omitempty"` // the workspace; "" if segno has no checkpoint here
	Agents []string      `json:"agents"`         // the agents whose hooks record turns here
	Last   *history.Item `json:"last"`           // the newest turn of the thread's line, which undo would undo
	Undo   segno.Counts  `json:"undo"`           // the files that an undo of it would change, if nothing changed since
	Redo   int           `json:"redo"`           // the undone turns that redo would bring back
	Open   []openItem    `json:"open"`           // turns under way
	Error  string        `json:"error,omitempty"`

	DirBytes  []byte `json:"dir_bytes,omitempty"`
	RootBytes []byte `json:"root_bytes,omitempty"`

	enable string // the agent to enable, if none is
}

// stateTimeout limits the time for which the state waits for a store that is busy.
const stateTimeout = 2 * time.Second

// state reads the state of the directory. An error is a part of the result.
func (a *app) state(ctx context.Context) (any, func(*cli.Printer)) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	s := stateResult{Agents: []string{}, Open: []openItem{}}
	if err := a.readState(ctx, &s); err != nil {
		s.Error = err.Error()
	}
	return s, func(p *cli.Printer) { a.writeState(p, s) }
}

func (a *app) readState(ctx context.Context, s *stateResult) error {
	place, dir, err := a.PlaceAndDir()
	if err != nil {
		return err
	}
	s.Dir, s.DirBytes = dir, segno.PathBytes(dir)
	for _, agent := range agents.WithHooks() {
		if _, ok := hook.InstalledSince(place, agent, dir); ok {
			s.Agents = append(s.Agents, agent)
		}
	}
	if len(s.Agents) == 0 {
		s.enable = place.AgentInUse(ctx)
	}
	if !place.Exists() {
		return nil
	}
	store, err := place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	rec, err := store.Find(ctx, dir)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	s.Root, s.RootBytes = rec.Path, segno.PathBytes(rec.Path)
	return s.readThread(ctx, store, rec)
}

// readThread reads the open turns of the workspace, and the newest turn of its thread.
func (s *stateResult) readThread(ctx context.Context, store *local.Store, rec segno.WorkspaceRecord) error {
	tl, err := store.Timeline(rec, nil)
	if err != nil {
		return err
	}
	turns, err := tl.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Workspace == rec.ID && !t.InBackground() {
			s.Open = append(s.Open, newOpenItem(t))
		}
	}
	thread, err := tl.CurrentThread(ctx)
	if err != nil || thread == "" {
		return err
	}
	h, err := history.Read(ctx, store, thread)
	if err != nil {
		return err
	}
	s.Redo = undoneTurns(h)
	parts := timeline.NewestTurn(h.Line(h.Head.Head))
	if len(parts) == 0 {
		return nil
	}
	item := h.Item(parts[0])
	s.Last = &item
	for _, c := range parts {
		s.Undo.Added += c.Files.Deleted
		s.Undo.Modified += c.Files.Modified
		s.Undo.Deleted += c.Files.Added
	}
	return nil
}

// undoneTurns counts the turns that redo can reach: those on the line of the tip, above the line of the head.
func undoneTurns(h *history.History) (n int) {
	here := h.Line(h.Head.Head)
	for _, c := range h.Line(h.Head.Tip) { // newest first
		if slices.Contains(here, c) {
			break
		}
		if c.Kind == segno.CheckpointTurn {
			n++
		}
	}
	return n
}

func (a *app) writeState(p *cli.Printer, s stateResult) {
	line := func(name, text string) { p.Linef("%s", cli.Fit(p.Bold(cli.Pad(name, 10))+" "+text, p.Width())) }
	p.Linef("")
	if s.Dir != "" {
		line("directory", cli.QuotePath(cmp.Or(s.Root, s.Dir)))
	}
	switch {
	case len(s.Agents) > 0:
		line("recorded", "the turns of "+strings.Join(s.Agents, ", "))
	case s.Last != nil:
		line("recorded", "turns of "+cli.Inline(s.Last.Agent)+", without hooks")
	case s.Root != "":
		line("recorded", "no agent is enabled; run 'segno enable "+s.enable+"'")
	case s.Error == "":
		line("recorded", "no; run 'segno enable "+s.enable+"'")
	}
	for _, t := range s.Open {
		line("open turn", cli.Clean(t.Agent)+" "+cli.Quote(cli.CleanLines(timeline.Title(t.Prompt))))
	}
	switch {
	case s.Last != nil:
		t, _ := time.Parse(time.RFC3339Nano, s.Last.Time) // Item wrote it
		line("last turn", p.Bold(turnName(s.Last))+" "+printable.Age(a.Now().Sub(t))+" "+cli.Inline(s.Last.Agent)+" "+cli.Quote(timeline.Title(s.Last.Prompt)))
		line("undo", "would undo "+turnName(s.Last)+": "+cmp.Or(cli.Counts(s.Undo), "no files")+p.Dim("; 'segno undo' shows the plan and asks"))
	case s.Redo > 0:
		line("last turn", "none: every turn is undone")
	case s.Root != "" && s.Error == "":
		line("last turn", "none yet on this thread")
	}
	if s.Redo > 0 {
		line("redo", "would bring back "+printable.Plural(s.Redo, "turn")+p.Dim("; 'segno redo' shows the plan and asks"))
	}
	if s.Error != "" {
		line("error", p.Warn(cli.Inline(s.Error))+"; run 'segno doctor'")
	}
}

// turnName is the name of a turn, as verbs take it.
func turnName(it *history.Item) string { return fmt.Sprintf("t%d", it.Turn) }
