package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// clockGrain is how far a file system's clock may be behind that of a process.
const clockGrain = 10 * time.Millisecond

// activity is the evidence that decides which changes a turn made. Three rules decide:
//
//   - a change before the end of the turn belongs to the turn;
//   - a later change belongs to the user, unless the turn's own tools named the path;
//   - if the times do not decide, the path is in doubt: it stays with the turn, and
//     undo lists it as a conflict.
type activity struct {
	calls []toolCall
	start time.Time // the turn was not at work before; zero if that is not known
	until time.Time // the turn was at work until then
	exact bool      // and not longer
	blind bool      // tool calls are not known: a later change may be the turn's
	root  string
}

// toolCall is one tool call and the time in which it worked.
type toolCall struct {
	text     string     // every string of its input
	content  segno.Hash // of the file it wrote, if the input holds all of it
	from, to time.Time
	lost     bool // its end is not known, so that to is no bound
	confined bool // the tool writes only the paths that it names
	keeps    bool // and these paths exist afterwards
}

// owner is the author of a change, as seen from one turn.
type owner uint8

const (
	ownTurn  owner = iota // the turn's
	ownDoubt              // the turn's, or another author's, or both
	ownOther              // not the turn's
)

// ownerFunc returns the owner of a change to a path that was last touched at a time.
type ownerFunc func(change segno.Change, touched time.Time) owner

// toolCalls reads the tool calls of entries. end is when calls without a result ended, or zero
// for not known. tasks has the ends of background tasks.
func toolCalls(entries []segno.Entry, end time.Time, tasks map[string]time.Time) []toolCall {
	var out []toolCall
	at := map[string]int{}
	for _, e := range entries {
		switch e.Kind {
		case segno.EntryIntent:
			i, again := at[e.ID]
			if !again || e.ID == "" {
				i = len(out)
				out = append(out, toolCall{from: e.Time, to: end, lost: end.IsZero(), confined: isConfined(e.Name), keeps: isConfined(e.Name) && !mayRemove(e.Name)})
				at[e.ID] = i
			}
			if !onlyReads(e.Name) {
				out[i].read(e.Body)
			}
		case segno.EntryResult:
			i, ok := at[e.ID]
			if !ok {
				continue
			}
			out[i].to, out[i].lost = e.Time, false
			if until, ok := tasks[startedTask(e.Body)]; ok {
				out[i].to, out[i].lost = until, until.IsZero()
			}
		}
	}
	return out
}

// read reads the input of a call.
func (s *toolCall) read(input json.RawMessage) {
	var in any
	if json.Unmarshal(input, &in) != nil {
		return
	}
	var text strings.Builder
	collectStrings(&text, in)
	s.text += text.String() // of all reports of the call
	if m, ok := in.(map[string]any); ok {
		if text, ok := m["content"].(string); ok && s.confined {
			s.content = segno.HashOf([]byte(text))
		}
	}
}

// startedTask returns the background task that a call started, according to its result, or "".
func startedTask(result json.RawMessage) string {
	var r struct {
		Response struct {
			Task  string `json:"backgroundTaskId"`
			Agent string `json:"agentId"`
			Async bool   `json:"isAsync"`
		} `json:"response"`
	}
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	if r.Response.Task == "" && r.Response.Async {
		return r.Response.Agent
	}
	return r.Response.Task
}

// isConfined reports whether a tool changes at most the files that its input names, by
// the names that Claude Code and the Agent Client Protocol use. The calls of a subagent are
// entries too, so the tool that starts a subagent changes nothing.
func isConfined(tool string) bool {
	switch tool {
	case "Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch", "edit", "delete", "move", "Agent", "Task":
		return true
	}
	return onlyReads(tool)
}

// mayRemove reports whether a tool that is confined can remove a file that it names.
func mayRemove(tool string) bool { return tool == "apply_patch" || tool == "delete" || tool == "move" }

// onlyReads reports whether a tool changes no files.
func onlyReads(tool string) bool {
	switch tool {
	case "Read", "Glob", "Grep", "LS", "NotebookRead", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TaskOutput", "TaskStop",
		"BashOutput", "KillShell", "WebFetch", "WebSearch", "AskUserQuestion", "ExitPlanMode", "ToolSearch", "Skill",
		"read", "search", "fetch", "think", "switch_mode":
		return true
	}
	return false
}

// ownerOf returns the owner of a change to a path that was last touched at a time.
func (c *activity) ownerOf(change segno.Change, touched time.Time) owner {
	if touched.IsZero() {
		return ownDoubt
	}
	sure := c.until
	if c.exact {
		sure = sure.Add(-clockGrain)
	}
	if !touched.After(sure) {
		return ownTurn
	}
	gone := change.To.Type == segno.EntityNone
	unsure := c.blind || !touched.After(c.until) // the turn's end is within the grain of the clock
	for _, s := range c.calls {
		switch s.ownerOf(change, c.root, touched) {
		case ownTurn:
			return ownTurn
		case ownDoubt:
			unsure = true
		}
		// A path that is gone has the time of its directory, which may have changed again.
		unsure = unsure || gone && !s.confined
	}
	if unsure {
		return ownDoubt
	}
	return ownOther
}

// ownerOf returns the owner of a change, made after the turn ended, by one call alone.
func (s *toolCall) ownerOf(change segno.Change, root string, touched time.Time) owner {
	gone := change.To.Type == segno.EntityNone
	names := mentions(s.text, root, change.Path) && !(gone && s.keeps)
	switch during := s.workedAt(touched); {
	case !names && during && !s.confined:
		return ownDoubt
	case !names:
		return ownOther
	case !s.content.IsZero() && s.content == change.To.Hash:
		return ownTurn // the file has the content that the tool wrote
	case gone && s.deletes() && !s.from.After(touched), !gone && during && !s.lost:
		return ownTurn
	}
	return ownDoubt
}

// workedAt reports whether the call may have worked at a time.
func (s *toolCall) workedAt(at time.Time) bool {
	return !at.Before(s.from.Add(-clockGrain)) && (s.lost || !at.After(s.to))
}

// deletes reports whether a call can remove the paths that it names.
func (s *toolCall) deletes() bool {
	for _, word := range []string{"rm", "mv", "unlink", "rmdir", "git", "find", "del", "trash", "shred"} {
		if !s.confined && containsWord(s.text, word) {
			return true
		}
	}
	return false
}

// division has the paths of changes by owner.
type division struct {
	turn   []string // the turn's
	others []string // not the turn's
	doubt  []string // the turn's, or not
	dirs   []string // directories in doubt, without those that got the owner of their contents
}

// touchTimes returns when each changed path and each directory above it last changed in
// any way, by path. The root is ".".
func (tx *txn) touchTimes(ctx context.Context, changes []segno.Change) (map[string]time.Time, error) {
	times := map[string]time.Time{".": {}}
	paths := []string{""}
	for _, x := range changes {
		for p := x.Path; p != "."; p = path.Dir(p) {
			if _, seen := times[p]; seen {
				break
			}
			times[p] = time.Time{}
			paths = append(paths, p)
		}
	}
	touched, err := tx.Workspace.Touched(ctx, paths)
	if err != nil {
		return nil, fmt.Errorf("look at files: %w", err)
	}
	times["."] = touched[0]
	for i, p := range paths[1:] {
		times[p] = touched[i+1]
	}
	return times, nil
}

// changeTime returns the latest time at which a rename of a directory above p may have
// moved p, or zero. A rename changes the time of the directory and that of its parent,
// but not the times of its contents. Only directories that pass counts are
// considered.
func changeTime(p string, times map[string]time.Time, counts func(dir string) bool) (at time.Time) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		renamed := times[dir]
		if parent := times[path.Dir(dir)]; parent.Before(renamed) {
			renamed = parent
		}
		if counts(dir) && renamed.After(at) {
			at = renamed
		}
	}
	return at
}

// ownerAmong returns the owner of a change, by the time of its path and by the times of the
// directories above it, because the user may have renamed one of those after the turn. changed
// holds all changes by path. start is when the turn began, or zero.
func ownerAmong(x segno.Change, changed map[string]segno.Change, times map[string]time.Time, start time.Time, of ownerFunc) owner {
	touched := times[x.Path]
	if !start.IsZero() && !touched.IsZero() && touched.Before(start.Add(-clockGrain)) {
		// No author wrote or removed this path since the turn began: a rename of a
		// directory above it moved it.
		at := changeTime(x.Path, times, func(string) bool { return true })
		if at.Before(start.Add(-clockGrain)) {
			return ownDoubt
		}
		return of(x, at)
	}
	first := of(x, touched)
	if x.To.Type == segno.EntityNone {
		return first
	}
	at := changeTime(x.Path, times, func(dir string) bool {
		c, ok := changed[dir]
		return ok && c.From.Type != segno.EntityDir && c.To.Type == segno.EntityDir
	})
	if !at.After(touched) || of(x, at) == first {
		return first
	}
	return ownDoubt // the user may have moved a file of the turn, or the turn one of the user
}

// divide decides the owner of each change. times are those of touchTimes, and start is when
// the turn began, or zero.
func divide(changes []segno.Change, times map[string]time.Time, start time.Time, of ownerFunc) (d division) {
	own := make(map[string]owner, len(changes))
	changed := make(map[string]segno.Change, len(changes))
	for _, x := range changes {
		changed[x.Path] = x
	}
	for _, x := range changes {
		own[x.Path] = ownerAmong(x, changed, times, start, of)
	}
	// A directory gets the owner of its contents, and all names of a file get the same owner.
	for i, x := range slices.Backward(changes) {
		if x.From.Type == segno.EntityHardLink || x.To.Type == segno.EntityHardLink {
			assignLink(x, own)
		} else if isDirChange(x) {
			assignDir(x, changes[i+1:], own)
		}
	}
	for _, x := range changes {
		assignParents(x, changed, own)
	}
	for _, x := range changes {
		list := &d.doubt
		switch own[x.Path] {
		case ownTurn:
			list = &d.turn
		case ownOther:
			list = &d.others
		case ownDoubt:
			if isDirChange(x) {
				list = &d.dirs
			}
		}
		*list = append(*list, x.Path)
	}
	return d
}

// isDirChange reports whether a path is or was a directory.
func isDirChange(x segno.Change) bool {
	return x.From.Type == segno.EntityDir || x.To.Type == segno.EntityDir
}

// assignLink gives a name of a file the same owner as the first name of the file.
func assignLink(x segno.Change, own map[string]owner) {
	target := x.From.Target
	if x.From.Type != segno.EntityHardLink {
		target = x.To.Target
	}
	if first, changed := own[target]; changed && first != own[x.Path] {
		own[target], own[x.Path] = ownDoubt, ownDoubt
	} else if !changed && own[x.Path] == ownOther {
		own[x.Path] = ownDoubt
	}
}

// assignDir gives a directory the owner of the paths below it. after are the changes that sort
// after it. Their owners are known.
func assignDir(x segno.Change, after []segno.Change, own map[string]owner) {
	below, others := 0, 0
	for _, y := range after {
		if y.Path > x.Path+"0" { // the byte after the slash
			break
		}
		if strings.HasPrefix(y.Path, x.Path+"/") {
			if below++; own[y.Path] == ownOther {
				others++
			}
		}
	}
	switch isNewOrGone := x.From.Type == segno.EntityNone || x.To.Type == segno.EntityNone; {
	case below == 0:
	case isNewOrGone && others == below:
		own[x.Path] = ownOther
	case isNewOrGone:
		own[x.Path] = ownTurn
	case x.From.Type != x.To.Type && (others < below || own[x.Path] != ownOther):
		own[x.Path] = ownDoubt // a file replaced a directory, or the other way round
	}
}

// assignParents gives a path the owner of the directory above it where another owner is
// impossible: nothing can be restored below a file, and the contents of another author's
// directory belong to that author. A change of a directory that existed before and still does
// concerns its attributes, and decides nothing about its contents.
func assignParents(x segno.Change, changes map[string]segno.Change, own map[string]owner) {
	for dir := path.Dir(x.Path); dir != "."; dir = path.Dir(dir) {
		above, changed := own[dir]
		if c := changes[dir]; !changed || c.From.Type == segno.EntityDir && c.To.Type == segno.EntityDir {
			continue
		}
		if x.From.Type != segno.EntityNone && x.To.Type == segno.EntityNone && own[x.Path] == ownOther && above != ownOther {
			own[dir] = ownOther // the directory is restored with its contents
		}
		if x.To.Type != segno.EntityNone && own[x.Path] != ownOther && above == ownOther {
			own[x.Path] = ownOther
		}
	}
}

// splitChanges separates the changes of a turn from later changes by others. It sets the
// snapshot that the turn left, and adds paths in doubt.
func (tx *txn) splitChanges(ctx context.Context, w *turnEnd, c activity) error {
	before := w.turn.Before
	if before.Tree == w.present.Tree {
		return nil
	}
	changes, err := tx.diff(ctx, before.Tree, w.present.Tree)
	if tx.deferred && segno.KindOf(err) == segno.KindNotFound {
		return nil // the state before is deferred and cannot be read yet
	}
	if err != nil {
		return err
	}
	times, err := tx.touchTimes(ctx, changes)
	if err != nil {
		return err
	}
	parts := divide(changes, times, c.start, c.ownerOf)
	w.doubt = append(parts.doubt, w.doubt...)
	if len(parts.others) > 0 {
		w.after, err = tx.Workspace.Compose(ctx, w.batch, w.present, *before, parts.others)
	}
	return err
}

// doubtEntry records the paths of a turn that another author may have changed. Names are bytes,
// because a name need not be valid UTF-8.
func doubtEntry(paths []string, session segno.SessionID, at time.Time) segno.Entry {
	raw := make([][]byte, len(paths))
	for i, p := range paths {
		raw[i] = []byte(p)
	}
	body, _ := json.Marshal(raw) // byte slices always encode
	return segno.Entry{Kind: segno.EntryDoubt, Session: session, Time: at, Name: "segno", Body: body}
}

// doubtfulPaths returns the paths in doubt of a turn's entries.
func doubtfulPaths(entries []segno.Entry) map[string]bool {
	all := map[string]bool{}
	for _, e := range entries {
		var raw [][]byte
		if e.Kind != segno.EntryDoubt || json.Unmarshal(e.Body, &raw) != nil {
			continue
		}
		for _, p := range raw {
			all[string(p)] = true
		}
	}
	return all
}
