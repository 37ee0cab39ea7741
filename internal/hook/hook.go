// Package hook records the turns of agents that run hooks: it reads one event
// from standard input, does what the event asks of a [timeline.Timeline], and tells
// the agent nothing that would stop it.
//
// A hook never fails its agent. It exits 0, prints nothing or one JSON object,
// and writes what went wrong to the store's hook.log, which 'segno doctor' shows.
// Every event is its own short process; what lies between two of them is in the
// store and the spool. Events at tool boundaries touch the spool only.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// storeWait is how long a hook waits for the store's writer before it leaves its
// commit to the next command or hook.
const storeWait = 250 * time.Millisecond

// Event is one run of a hook.
type Event struct {
	Place  local.Place
	Stdin  io.Reader
	Stdout io.Writer
	Getenv func(string) string
	PID    int // of this process
	// Baseline starts the baseline of a directory in the background.
	Baseline func(dir string) error
	// Exit ends the process, should an event not end in time; nil leaves that to the
	// agent.
	Exit func()
}

// Claude handles one event of Claude Code.
func Claude(ctx context.Context, e Event) {
	e.Place.StoreWait = storeWait
	reading := e.watch(ctx, longest(), func(event.Reason) {})
	if err := e.Place.CheckOwner(); err != nil {
		e.refuse(err)
		reading.Stop()
		return
	}
	log := event.Log{Store: e.Place.Store}
	defer func() {
		if r := recover(); r != nil {
			log.Append("panic", "", fmt.Errorf("%v\n%s", r, debug.Stack()))
		}
	}()
	p, err := event.Read(e.Stdin)
	reading.Stop()
	if errors.Is(err, io.EOF) {
		return
	}
	if err != nil {
		log.Append("unreadable event", p.Session, err)
		return
	}
	spool := e.Place.Spool()
	h := &handler{Event: e, Payload: p, log: log, spool: spool, notes: event.Recorder{Spool: spool, Now: e.Place.Now}}
	defer e.watch(ctx, deadline(p.Event), h.expire).Stop()
	// Esc ends a hook with a signal. What it records is worth the tenths of a
	// second it still takes; a second signal ends the process.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline(p.Event))
	defer cancel()
	if err := h.handle(ctx); err != nil {
		h.failed(err)
	}
	if err := h.answer.write(e.Stdout); err != nil {
		log.Append(p.Event, p.Session, err)
	}
}

// watch starts the watchdog of an event. It ends the process after report, which may be
// blocked like the event itself.
func (e Event) watch(ctx context.Context, deadline time.Duration, report func(event.Reason)) *event.Watchdog {
	return event.Watch(ctx, deadline, func(why event.Reason) {
		if e.Exit != nil {
			event.RunBriefly(func() { report(why) })
			e.Exit()
		}
	})
}

// longest is the longest deadline of an event: which one it is, is not known until it
// is read.
func longest() (most time.Duration) {
	for _, r := range registrations {
		most = max(most, deadline(r.event))
	}
	return most
}

// deadline is how long an event may take: less than the agent allows, so that we
// end in order and not by a signal. [registration] has the agent's side.
func deadline(name string) time.Duration {
	for _, r := range registrations {
		if r.event == name {
			return time.Duration(r.timeout)*time.Second - time.Second
		}
	}
	return 4 * time.Second
}

type handler struct {
	Event
	event.Payload
	log   event.Log
	spool timeline.Spool
	notes event.Recorder
	home  string // where the session was first seen, see dir

	answer answer
	opened bool // a turn of the session is open: it is recorded
}

func (h *handler) handle(ctx context.Context) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.IsToolEvent() {
		return h.notes.RecordTool(ctx, h.Payload)
	}
	switch h.Payload.Event {
	case "SessionStart":
		return h.sessionStart(ctx)
	case "UserPromptSubmit":
		return h.promptSubmit(ctx)
	case "Stop":
		return h.end(ctx, false)
	case "StopFailure":
		if err := h.notes.RecordText(ctx, h.Payload, "the turn failed: "+string(segno.Clip(h.Error))); err != nil {
			return err
		}
		return h.end(ctx, true)
	case "SessionEnd":
		return h.sessionEnd(ctx)
	case "SubagentStop":
		if h.AgentType == "" {
			return nil // what makes the summary of a compaction is no subagent
		}
		return h.subagentStop(ctx)
	case "WorktreeRemove":
		return h.worktreeRemove(ctx)
	case event.Probe:
		return h.AnswerProbe(h.Stdout)
	}
	return nil
}

// dir is the directory the session started in, symlinks resolved: the agent's own cd
// does not move it. Claude Code says it in the environment; for one that does not, it
// is where the session was first seen.
func (h *handler) dir() string {
	dir := h.Cwd
	if h.home != "" {
		dir = h.home
	}
	if d := h.Getenv("CLAUDE_PROJECT_DIR"); d != "" {
		dir = d
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
		return real
	}
	return dir
}

// settleDir looks up where the session was first seen, unless that is gone.
func (h *handler) settleDir(ctx context.Context, store *local.Store) error {
	first, err := store.SessionDir(ctx, h.Session)
	if err != nil {
		return fmt.Errorf("find the session's directory: %w", err)
	}
	if fi, err := os.Stat(first); err == nil && fi.IsDir() {
		h.home = first
	}
	return nil
}

// noteOpen notes what carries a prompt id of its own on the session's open turn,
// if there is one.
func (h *handler) noteOpen(ctx context.Context, text string) error {
	p := h.Payload
	p.PromptID = ""
	return h.notes.RecordText(ctx, p, text)
}

// sessionStart takes a missing baseline in the background, so that the first
// prompt finds most of it done.
func (h *handler) sessionStart(ctx context.Context) error {
	if h.Source == "compact" {
		// PreCompact would say so earlier, but the agent shows the model which commands
		// ran for that event.
		return h.noteOpen(ctx, "the session was compacted")
	}
	if h.Baseline == nil {
		return nil
	}
	store, err := h.Place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	rec, err := store.RegisterRoot(ctx, h.dir())
	if err != nil {
		return err
	}
	if rec.State.Snapshot != nil {
		return nil
	}
	if _, err := os.Stat(store.IndexFile(rec.ID)); err == nil {
		return nil
	}
	return h.Baseline(rec.Path)
}

// sessionEnd closes a turn of the session that was never ended: an interrupted
// turn fires no Stop.
func (h *handler) sessionEnd(ctx context.Context) error {
	var failed error
	// What runs ends before what goes on in the background: its end tells the two apart.
	for _, background := range []bool{false, true} {
		turns, err := h.spool.Turns(ctx) // the end of a turn rewrites those beside it
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, t := range turns {
			if t.Source.Session != h.Session || t.InBackground() != background {
				continue
			}
			e := timeline.TurnEnd{Key: t.Key, Agent: t.Agent, Source: t.Source, Interrupted: true, Late: true, Ended: h.Place.Now()}
			failed = errors.Join(failed, h.endTurn(ctx, e, t.Workspace))
		}
	}
	return failed
}

// worktreeRemove saves a known workspace that is about to be deleted.
func (h *handler) worktreeRemove(ctx context.Context) error {
	if h.WorktreePath == "" || !h.Place.Exists() {
		return nil
	}
	store, err := h.Place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	rec, err := store.Find(ctx, h.WorktreePath)
	if segno.KindOf(err) == segno.KindNotFound || (err == nil && rec.Path != h.WorktreePath) {
		return nil
	}
	if err != nil {
		return err
	}
	site, err := store.Timeline(rec, nil)
	if err != nil {
		return err
	}
	_, err = site.Save(ctx, segno.CheckpointCut, "before the worktree was removed")
	return err
}

var errNoSession = errors.New("the event names no session")
