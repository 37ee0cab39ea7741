package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// answer is the hook's output to the agent: nothing, or one JSON object. Its methods may be called
// concurrently, because the watchdog answers for a handler that blocks.
type answer struct {
	mu      sync.Mutex
	lines   []string // for the user, in the agent's UI
	context string   // for the model
	event   string   // the event at which the model gets it
	written bool
}

// showLine adds a line that the agent shows to the user. It ignores an empty one.
func (a *answer) showLine(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if line != "" {
		a.lines = append(a.lines, line)
	}
}

// addContext sets the text that the agent gives to the model with a prompt or a call.
func (a *answer) addContext(event, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.event, a.context = event, text
}

// write writes the answer. Later calls do nothing.
func (a *answer) write(w io.Writer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written || len(a.lines) == 0 && a.context == "" {
		return nil
	}
	a.written = true
	out := map[string]any{}
	if len(a.lines) > 0 {
		out["systemMessage"] = strings.Join(a.lines, "\n")
	}
	if a.context != "" {
		out["hookSpecificOutput"] = map[string]string{"hookEventName": a.event, "additionalContext": a.context}
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write hook output: %w", err)
	}
	return nil
}

// maxLine is the length, in runes, to which an error is cut before it is shown.
const maxLine = 400

// reportFailure logs that an event was not recorded. The user sees this once in a session, because
// a line for each prompt would be noise.
func (h *handler) reportFailure(err error) {
	h.log.Append(h.Payload.Event, h.Session, err)
	switch h.Payload.Event {
	case "SessionStart", "UserPromptSubmit", "Stop", "StopFailure":
	default:
		return // the agent does not show output of other events
	}
	if h.Session == "" || h.Check() != nil || h.isRecorded {
		return
	}
	if h.Payload.Event == "Stop" && segno.KindOf(err) == segno.KindNotFound {
		return // no turn is open, so there was nothing to record
	}
	first, markErr := h.Place.Spool().KeepUnrecorded(spool.Unrecorded{Session: h.Session, Dir: h.dir(),
		Refused: segno.KindOf(err) == segno.KindRefused, Why: clip(err.Error()), Hint: clip(segno.HintOf(err)), Time: h.Place.Now().UTC()})
	if markErr != nil {
		h.log.Append("remember unrecorded session", h.Session, markErr)
	}
	if !first {
		return
	}
	line := "segno: this session is not recorded: " + clip(err.Error())
	if hint := segno.HintOf(err); hint != "" {
		line += "; " + clip(hint)
	}
	h.answer.showLine(line + " (run 'segno doctor' for details)")
}

// reportRefusal shows once in a session why segno records nothing. It touches no file in the store,
// because the store belongs to another user.
func (e Event) reportRefusal(read func() (event.Payload, error), why error) {
	p, err := read()
	isShown := p.Event == "SessionStart" || p.Event == "UserPromptSubmit"
	if err != nil || p.Check() != nil || !isShown || !e.Place.Spool().FirstTime(p.Session) {
		return
	}
	var a answer
	a.showLine("segno: this session is not recorded: " + clip(why.Error()) + "; " + clip(segno.HintOf(why)))
	_ = a.write(e.Stdout) // there is no log to write to: it is in the other user's store
}

// markRecorded records that the session's turns are recorded again.
func (h *handler) markRecorded(ctx context.Context) {
	h.isRecorded = true
	if err := h.Place.Spool().ClearUnrecorded(ctx, h.Session, h.dir()); err != nil {
		h.log.Append("forget unrecorded session", h.Session, err)
	}
}

// maxPaths is the number of paths that one line shows.
const maxPaths = 3

// showOutside shows the paths outside the workspace that tool calls of a turn named. Changes to
// them are not recorded, and undo does not revert them.
func (h *handler) showOutside(ctx context.Context, t timeline.OpenTurn) {
	if t.Before == nil {
		return
	}
	entries, _, err := h.spool.Entries(ctx, t.Key)
	if err != nil {
		h.log.Append("look for paths outside the workspace", h.Session, err)
		return
	}
	bounds := turns.Bounds{Root: t.Before.Root, Dir: t.Source.Dir, Home: h.Place.UserHome, Agent: h.Place.Homes[claude.Name]}
	var names []string
	for _, e := range entries {
		if e.Kind != segno.EntryIntent {
			continue
		}
		for _, p := range bounds.Outside(e.Name, e.Body) {
			if name := segno.QuotePath(p); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - maxPaths; n > 0 {
		names, more = names[:maxPaths], fmt.Sprintf(" and %d more ('segno show' lists them)", n)
	}
	h.answer.showLine("segno: outside the workspace, not recorded: " + strings.Join(names, ", ") + more)
}

// clip returns the text as one printable line of at most maxLine runes.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if r := []rune(s); len(r) > maxLine {
		return string(r[:maxLine]) + "…"
	}
	return s
}

// reportTimeout answers for a handler that did not end in time. The watchdog calls it.
func (h *handler) reportTimeout(why proc.Reason) {
	err := segno.Errorf(segno.KindCancelled, "record event", h.Payload.Event, "%s ended the hook before the event was recorded", why).
		WithHint("check that the files of " + filepath.Base(h.Payload.Cwd) + " can be read")
	if why == proc.BySignal {
		h.log.Append(h.Payload.Event, h.Session, err)
		return
	}
	h.reportFailure(err)
	_ = h.answer.write(h.Stdout) // the process ends now
}
