package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/event"
	"github.com/dalsegno/segno/internal/spool"
	"github.com/dalsegno/segno/timeline"
)

// answer is what a hook writes to the agent: nothing, or one JSON object. Its methods
// may be called at once, for the watchdog answers for a handler that is blocked.
type answer struct {
	mu      sync.Mutex
	lines   []string // for the user, in the agent's UI
	context string   // for the model, at a prompt
	written bool
}

// show adds a line that the user sees.
func (a *answer) show(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, line)
}

// tell adds what the model reads with the prompt.
func (a *answer) tell(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.context = text
}

// write writes the answer, once.
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
		out["hookSpecificOutput"] = map[string]string{"hookEventName": "UserPromptSubmit", "additionalContext": a.context}
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write hook output: %w", err)
	}
	return nil
}

// tell answers a prompt.
func (h *handler) tell(b timeline.TurnStart) error {
	if b.Warn != "" {
		h.answer.show(b.Warn)
	}
	if b.Tell != "" {
		h.answer.tell(b.Tell)
	}
	return nil
}

// maxLine bounds what is shown of an error.
const maxLine = 400

// failed logs that an event was not recorded, and shows it to the user once for a
// session: a line for each prompt would be noise.
func (h *handler) failed(err error) {
	h.log.Append(h.Payload.Event, h.Session, err)
	switch h.Payload.Event {
	case "SessionStart", "UserPromptSubmit", "Stop", "StopFailure":
	default:
		return // the agent shows nothing then
	}
	if h.Session == "" || h.Check() != nil || h.opened {
		return
	}
	if h.Payload.Event == "Stop" && segno.KindOf(err) == segno.KindNotFound {
		return // the end of no turn: nothing was to be recorded
	}
	first, markErr := h.Place.Spool().KeepUnrecorded(spool.Unrecorded{Session: h.Session, Dir: h.dir(), Refused: segno.KindOf(err) == segno.KindRefused, Why: clip(err.Error()),
		Hint: clip(segno.HintOf(err)), Time: h.Place.Now().UTC()})
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
	h.answer.show(line + " ('segno doctor' tells more)")
}

// refuse shows once for a session why nothing of it is recorded, and touches no file in
// the store: it is another user's.
func (e Event) refuse(why error) {
	p, err := event.Read(e.Stdin)
	if err != nil || p.Check() != nil || p.Event != "SessionStart" && p.Event != "UserPromptSubmit" || !e.Place.Spool().FirstTime(p.Session) {
		return
	}
	var a answer
	a.show("segno: this session is not recorded: " + clip(why.Error()) + "; " + clip(segno.HintOf(why)))
	_ = a.write(e.Stdout) // there is no log to say so
}

// recorded notes that the session's turns are recorded now.
func (h *handler) recorded(ctx context.Context) {
	h.opened = true
	if err := h.Place.Spool().ClearUnrecorded(ctx, h.Session, h.dir()); err != nil {
		h.log.Append("forget unrecorded session", h.Session, err)
	}
}

// mostPaths is how many paths one line shows.
const mostPaths = 3

// showOutside shows the paths outside the workspace that the tools of a turn named: what
// was done to them is not recorded, and no undo reverts it.
func (h *handler) showOutside(ctx context.Context, t timeline.OpenTurn) {
	if t.Before == nil {
		return
	}
	entries, _, err := h.spool.Entries(ctx, t.Key)
	if err != nil {
		h.log.Append("look for paths outside the workspace", h.Session, err)
		return
	}
	bounds := event.Bounds{Root: t.Before.Root, Dir: t.Source.Dir, Home: h.Place.UserHome, Agent: h.Place.Claude}
	var names []string
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Kind != segno.EntryIntent {
			continue
		}
		for _, p := range bounds.Outside(e.Name, e.Body) {
			if !seen[p] {
				seen[p] = true
				names = append(names, shown(p))
			}
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - mostPaths; n > 0 {
		names, more = names[:mostPaths], fmt.Sprintf(" and %d more ('segno show' lists them)", n)
	}
	h.answer.show("segno: outside the workspace, not recorded: " + strings.Join(names, ", ") + more)
}

// shown is a path as it may be printed on a terminal.
func shown(p string) string {
	if strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(p)
	}
	return p
}

// clip makes one printable line of a text.
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

// expire answers for a handler that did not end in time: the watchdog calls it.
func (h *handler) expire(why event.Reason) {
	err := segno.Errorf(segno.KindCancelled, "record event", h.Payload.Event, "it was not done when %s ended it", why).WithHint("see whether the files of " + filepath.Base(h.Payload.Cwd) + " can be read")
	if why == event.BySignal {
		h.log.Append(h.Payload.Event, h.Session, err)
		return
	}
	h.failed(err)
	_ = h.answer.write(h.Stdout) // the process ends now
}
