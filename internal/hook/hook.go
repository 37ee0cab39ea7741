// Package hook records the turns of agents that run hooks: it reads one event
// from standard input and records it with a [timeline.Timeline].
//
// A hook never stops its agent. It exits 0, prints nothing or one JSON object,
// and writes errors to the store's hook.log, which 'segno doctor' shows. Every
// event is a separate short process, and the state between two events is in the
// store and the spool. Events at tool boundaries touch only the spool.
package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
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
	PID    int
	// NoSteps is set if the hook saves no files after calls.
	NoSteps bool
	// Baseline starts the baseline of a directory in the background.
	Baseline func(dir string) error
	// Exit ends the process if an event does not end in time. If it is nil, only the
	// agent ends the process.
	Exit func()
}

// Run handles one event of the agent with a name. For an agent without hooks, it only writes an error to the log.
func Run(ctx context.Context, name string, e Event) {
	a, err := agentOf(name)
	if err != nil {
		if e.Place.CheckOwner() == nil {
			event.Log{Store: e.Place.Store}.Append("find agent", "", err)
		}
		return
	}
	a.record(ctx, e, func() (event.Payload, error) { return event.Read(e.Stdin, a.Hooks) })
}

func (a agent) record(ctx context.Context, e Event, read func() (event.Payload, error)) {
	e.Place.StoreWait, e.Place.Actor = storeWait, a.Name
	reading := e.watch(ctx, a.deadline("UserPromptSubmit"), func(proc.Reason) {}) // the longest: the event is not known
	if err := e.Place.CheckOwner(); err != nil {
		e.reportRefusal(read, err)
		reading.Stop()
		return
	}
	log := event.Log{Store: e.Place.Store}
	defer log.AppendPanic()
	p, err := read()
	reading.Stop()
	if errors.Is(err, io.EOF) {
		return
	}
	if err != nil {
		log.Append("unreadable event", p.Session, err)
		return
	}
	spool := e.Place.Spool()
	h := &handler{Event: e, agent: a, Payload: p, log: log, spool: spool, notes: event.Recorder{Spool: spool, Now: e.Place.Now, Store: e.Place.Store, NoSteps: e.NoSteps}}
	defer e.watch(ctx, a.deadline(p.Event), h.reportTimeout).Stop()
	// On Esc the agent signals the hook. Recording the event takes only tenths of a
	// second more, so the handler finishes it. A second signal ends the process.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.deadline(p.Event))
	defer cancel()
	if err := h.handle(ctx); err != nil {
		h.reportFailure(err)
	}
	if err := h.answer.write(e.Stdout); err != nil {
		log.Append(p.Event, p.Session, err)
	}
}

// watch starts the watchdog of an event. The watchdog calls report and then ends the process, even
// if report blocks as the event does.
func (e Event) watch(ctx context.Context, deadline time.Duration, report func(proc.Reason)) *proc.Watchdog {
	return proc.Watch(ctx, deadline, func(why proc.Reason) {
		if e.Exit != nil {
			event.RunBriefly(func() { report(why) })
			e.Exit()
		}
	})
}

// handler handles one event. It opens the store only for the events that need it: an event at a
// tool boundary writes to the spool and does nothing else, because the agent waits for it.
type handler struct {
	Event
	event.Payload
	agent      agent
	log        event.Log
	spool      timeline.Spool
	notes      event.Recorder
	sessionDir string // where the session was first recorded; see dir

	answer     answer
	isRecorded bool // a turn of the session is open, or this event recorded it
}

// handle handles the event by its name. It ignores other events, which a newer agent may send.
func (h *handler) handle(ctx context.Context) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.IsToolEvent() {
		return h.tool(ctx)
	}
	if h.agent.Hooks.HasSubagentPrompts {
		if h.Payload = h.OfParent(); h.AgentID != "" {
			return h.subagentEvent(ctx)
		}
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
	case "Interrupt":
		return h.end(ctx, true)
	case "SessionEnd":
		return h.sessionEnd(ctx)
	case "SubagentStop":
		if h.AgentType == "" {
			return nil // a compaction's summary comes from an agent without a type, which is not a subagent
		}
		return h.subagentStop(ctx)
	case "WorktreeRemove":
		return h.worktreeRemove(ctx)
	case eventNotify:
		return h.notified(ctx)
	case event.Probe:
		return h.AnswerProbe(h.Stdout)
	}
	return nil
}

// tool records an event at a tool boundary. If the agent continues a turn that has ended, tool opens the turn again. If the agent began the
// turn itself, tool opens the turn.
func (h *handler) tool(ctx context.Context) error {
	late, err := h.notes.IsAfterEnd(ctx, h.Payload)
	if err == nil && late && h.Place.Exists() {
		err = h.openUnreported(ctx)
	}
	return errors.Join(err, h.notes.RecordTool(ctx, h.Payload))
}

// dir returns the directory in which the session started, with symlinks resolved. The agent's own
// cd does not change it. Claude Code and Gemini CLI pass the directory in the environment. If that
// variable is not set, dir returns the directory in which the session was first recorded. The
// events of Codex and OpenCode contain the directory in which the agent was started or resumed.
func (h *handler) dir() string {
	dir := h.Cwd
	if h.sessionDir != "" {
		dir = h.sessionDir
	}
	if h.agent.Hooks.DirVariable != "" {
		dir = cmp.Or(h.Getenv(h.agent.Hooks.DirVariable), dir)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
		return real
	}
	return dir
}

// findSessionDir sets sessionDir to the directory in which the session was first recorded, unless
// that directory no longer exists.
func (h *handler) findSessionDir(ctx context.Context, store *local.Store) error {
	if h.agent.Hooks.DirVariable == "" {
		return nil // the user may continue a session of Codex in any directory, which the event has
	}
	first, err := store.SessionDir(ctx, h.Session)
	if err != nil {
		return fmt.Errorf("find the session's directory: %w", err)
	}
	if fi, err := os.Stat(first); err == nil && fi.IsDir() {
		h.sessionDir = first
	}
	return nil
}

// sessionStart starts a missing baseline in the background, so that most of it is done when the
// first prompt arrives.
func (h *handler) sessionStart(ctx context.Context) error {
	if h.Source == "compact" {
		// PreCompact fires earlier, but the agent shows the model the commands that ran
		// for that event.
		p := h.Payload
		p.PromptID = "" // it is not the open turn's
		return h.notes.RecordText(ctx, p, "the session was compacted")
	}
	if h.Baseline == nil {
		return nil
	}
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		rec, err := store.RegisterRoot(ctx, h.dir())
		if err != nil || rec.State.Snapshot != nil {
			return err
		}
		if _, err := os.Stat(store.IndexFile(rec.ID)); err == nil {
			return nil
		}
		return h.Baseline(rec.Path)
	})
}

// sessionEnd ends the open turns of the session. An interrupted turn fires no Stop event, so it is
// still open here.
func (h *handler) sessionEnd(ctx context.Context) error {
	var failed error
	// The running turn ends before turns with background tasks: its end determines which
	// changes belong to the tasks.
	for _, background := range []bool{false, true} {
		turns, err := h.spool.Turns(ctx) // reread: the end of a turn rewrites overlapping turns
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, t := range turns {
			if t.Source.Session != h.Session || t.InBackground() != background {
				continue
			}
			e := timeline.TurnEnd{Key: t.Key, Agent: t.Agent, Source: t.Source, Interrupted: true, Late: true}
			if !h.agent.Hooks.HidesInterruptions {
				e.Ended = h.Place.Now()
			}
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
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		rec, err := store.Find(ctx, h.WorktreePath)
		if segno.KindOf(err) == segno.KindNotFound || err == nil && rec.Path != h.WorktreePath {
			return nil
		}
		if err != nil {
			return err
		}
		tl, err := store.Timeline(rec, nil)
		if err == nil {
			_, err = tl.Save(ctx, segno.CheckpointCut, "before the worktree was removed")
		}
		return err
	})
}

var errNoSession = errors.New("the event has no session id")
