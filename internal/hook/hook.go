// Package hook records the turns of agents that run hooks: it reads one event
// from standard input, does what the event asks of a [segno.Recorder], and tells
// the agent nothing that would stop it.
//
// A hook never fails its agent. It exits 0, prints nothing or one JSON object,
// and writes what went wrong to the store's hook.log, which 'segno doctor' shows.
// Every event is its own short process; what lies between two of them is in the
// store and the spool. Events at tool boundaries touch the spool only.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
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
}

// Claude handles one event of Claude Code.
func Claude(ctx context.Context, e Event) {
	e.Place.StoreWait = storeWait
	log := openLog(e.Place)
	defer log.Close()
	defer func() {
		if r := recover(); r != nil {
			log.failed("panic", payload{}, fmt.Errorf("%v\n%s", r, debug.Stack()))
		}
	}()
	p, err := readPayload(e.Stdin)
	if err != nil {
		log.failed("unreadable event", p, err)
		return
	}
	// Esc ends a hook with a signal. What it records is worth the tenths of a
	// second it still takes; a second signal ends the process.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline(p.Event))
	defer cancel()
	h := &handler{Event: e, payload: p, log: log, spool: e.Place.Spool()}
	if err := h.handle(ctx); err != nil {
		log.failed(p.Event, p, err)
	}
}

// deadline is how long an event may take: less than the agent allows, so that we
// end in order and not by a signal. [registration] has the agent's side.
func deadline(event string) time.Duration {
	for _, r := range registrations {
		if r.event == event {
			return time.Duration(r.timeout)*time.Second - time.Second
		}
	}
	return 4 * time.Second
}

// sessionName is what Claude Code's session ids are made of, and room for others.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

type handler struct {
	Event
	payload
	log   *Log
	spool segno.Spool
	home  string // where the session was first seen, see dir
}

func (h *handler) handle(ctx context.Context) error {
	if h.Session != "" && !sessionName.MatchString(string(h.Session)) {
		return &segno.Error{Op: "read hook event", Kind: segno.KindInvalid, Err: errors.New("the session id holds characters that no agent gives it")}
	}
	switch h.payload.Event {
	case "SessionStart":
		return h.sessionStart(ctx)
	case "UserPromptSubmit":
		return h.promptSubmit(ctx)
	case "PreToolUse":
		return h.note(ctx, segno.EntryIntent, segno.Clip(h.ToolInput))
	case "PostToolUse", "PostToolUseFailure":
		body, err := json.Marshal(h.result())
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		return h.note(ctx, segno.EntryResult, body)
	case "Stop":
		return h.end(ctx, false)
	case "StopFailure":
		if err := h.noteText(ctx, "the turn failed: "+string(segno.Clip(h.Error))); err != nil {
			return err
		}
		return h.end(ctx, true)
	case "SessionEnd":
		return h.sessionEnd(ctx)
	case "PreCompact":
		return h.noteOpen(ctx, "compaction: "+h.Trigger)
	case "SubagentStop":
		if h.AgentType == "" {
			return nil // what makes the summary of a compaction is no subagent
		}
		return h.noteOpen(ctx, "subagent "+h.AgentID+" ("+h.AgentType+") stopped")
	case "WorktreeRemove":
		return h.worktreeRemove(ctx)
	case probeEvent:
		return h.answerProbe(ctx)
	}
	return nil
}

// dir is the directory the session started in: the root is never widened, nor
// moved by the agent's own cd. Claude Code says it in the environment; for one that
// does not, it is where the session was first seen.
func (h *handler) dir() string {
	if d := h.Getenv("CLAUDE_PROJECT_DIR"); d != "" {
		return d
	}
	if h.home != "" {
		return h.home
	}
	return h.Cwd
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

// key names the turn an event belongs to.
func (h *handler) key(ctx context.Context) (segno.TurnKey, error) {
	if h.PromptID != "" {
		return segno.TurnKey(h.PromptID), nil
	}
	turns, err := h.spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range turns {
		if t.Source.Session == h.Session {
			return t.Key, nil
		}
	}
	return "", nil
}

func (h *handler) note(ctx context.Context, kind segno.EntryKind, body json.RawMessage) error {
	key, err := h.key(ctx)
	if err != nil || key == "" {
		return err
	}
	return h.spool.Note(ctx, key, segno.Entry{Kind: kind, Session: h.Session, Time: h.Place.Now(),
		ID: h.ToolUseID, Name: h.ToolName, Body: body})
}

func (h *handler) noteText(ctx context.Context, text string) error {
	body, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("encode note: %w", err)
	}
	return h.note(ctx, segno.EntryNote, body)
}

// noteOpen notes what carries a prompt id of its own on the session's open turn,
// if there is one.
func (h *handler) noteOpen(ctx context.Context, text string) error {
	h.PromptID = ""
	return h.noteText(ctx, text)
}

// answerProbe proves to [Probe] that the agent's settings lead here.
func (h *handler) answerProbe(_ context.Context) error {
	if err := segno.CheckID("probe", h.Nonce); err != nil {
		return err
	}
	_, err := fmt.Fprintf(h.Stdout, "{\"suppressOutput\":true,\"segno\":%q}\n", segno.DerivedID("probe", h.Nonce))
	return err
}

// sessionStart takes a missing baseline in the background, so that the first
// prompt finds most of it done.
func (h *handler) sessionStart(ctx context.Context) error {
	if h.Source == "compact" || h.Baseline == nil {
		return nil // the turn around an automatic compaction goes on
	}
	store, err := h.Place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	rec, err := store.Register(ctx, h.dir())
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
	turns, err := h.spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Source.Session == h.Session {
			return h.endTurn(ctx, segno.Ending{Key: t.Key, Agent: t.Agent, Source: t.Source, Interrupted: true}, t.Workspace)
		}
	}
	return nil
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
	site, err := store.Site(rec, nil)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	_, err = r.Cut(ctx, segno.KindCut, "before the worktree was removed")
	return err
}

var errNoSession = errors.New("the event names no session")
