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

// treeComposer is the ability of a [Workspace] to tell a turn's changes from later ones.
type treeComposer interface {
	// Compose returns the snapshot onto with each of paths replaced by its state in base.
	Compose(ctx context.Context, b segno.Batch, onto, base segno.Snapshot, paths []string) (segno.Snapshot, error)
	// Touched returns when each path last changed in any way; for one that is gone,
	// when the nearest directory above it did.
	Touched(ctx context.Context, paths []string) ([]time.Time, error)
}

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

// toolCall is one tool call and the time it worked.
type toolCall struct {
	text     string     // every string of its input
	content  segno.Hash // of the file it wrote, if the input holds all of it
	from, to time.Time
	lost     bool // nothing is known of its end: to is no bound
	confined bool // the tool writes only the paths that it names
	keeps    bool // and these paths exist afterwards
}

// owner says whose a change is.
type owner uint8

const (
	ownTurn  owner = iota // the turn's
	ownDoubt              // the turn's, or another author's, or both
	ownOther              // not the turn's
)

// toolCalls reads the tool calls of entries. end is when calls without a result ended; if
// it is zero that is not known. tasks says until when a background task worked.
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

// read takes the words of a call's input.
func (s *toolCall) read(input json.RawMessage) {
	var in any
	if json.Unmarshal(input, &in) != nil {
		return
	}
	var said strings.Builder
	collectStrings(&said, in)
	s.text = said.String()
	if m, ok := in.(map[string]any); ok {
		if text, ok := m["content"].(string); ok && s.confined {
			s.content = segno.HashOf([]byte(text))
		}
	}
}

// startedTask returns the background task that a call's result says it started, or "".
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
// the names that Claude Code and the Agent Client Protocol give such tools. The calls
// of a subagent are entries too, so the tool that starts one changes nothing.
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

// ownerOf says whose the change of a path is that was last touched at a time.
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
	named, within := false, false
	for _, s := range c.calls {
		gone := change.To.Type == segno.EntityNone
		names := s.names(change.Path, c.root) && !(gone && s.keeps)
		during := !touched.Before(s.from.Add(-clockGrain)) && (s.lost || !touched.After(s.to))
		switch {
		case names && !s.content.IsZero() && s.content == change.To.Hash:
			return ownTurn // the content is what the tool wrote
		case names && gone && s.deletes() && !s.from.After(touched):
			return ownTurn
		case names && during && !s.lost && !gone:
			return ownTurn
		}
		named = named || names
		within = within || during && !s.confined
	}
	switch gone := change.To.Type == segno.EntityNone; {
	case named, within, c.blind:
		return ownDoubt
	case !touched.After(c.until):
		return ownDoubt // within the grain of the clock
	case gone && slices.ContainsFunc(c.calls, func(s toolCall) bool { return !s.confined }):
		return ownDoubt // the directory changed later, which need not be when the path went
	}
	return ownOther
}

func (s *toolCall) names(p, root string) bool { return mentions(s.text, root)(p) }

// deletes reports whether a call can remove the paths that it names.
func (s *toolCall) deletes() bool {
	for _, word := range []string{"rm", "mv", "unlink", "rmdir", "git", "find", "del", "trash", "shred"} {
		if !s.confined && containsWord(s.text, word) {
			return true
		}
	}
	return false
}

// division say whose the changes are.
type division struct {
	turn   []string // the turn's
	others []string // not the turn's
	doubt  []string // the turn's, or not
	dirs   []string // directories in doubt: they get the owner of their contents
}

// touchTimes returns when each changed path and each directory above it last changed in
// any way, by path. The root is ".".
func touchTimes(ctx context.Context, w treeComposer, changes []segno.Change) (map[string]time.Time, error) {
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
	touched, err := w.Touched(ctx, paths)
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
// but not the times of what the directory holds. Only directories that pass counts are
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

// ownerOf says whose a change is, by the time of its path and by the times of the
// directories above it: the user may have renamed one of those after the turn. changed
// holds all changes by path. start is when the turn began, or zero.
func ownerOf(x segno.Change, changed map[string]segno.Change, times map[string]time.Time, start time.Time, of func(segno.Change, time.Time) owner) owner {
	touched := times[x.Path]
	if !start.IsZero() && !touched.IsZero() && touched.Before(start.Add(-clockGrain)) {
		// Nothing wrote or removed this path since the turn began: a rename of a
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
	return ownDoubt // the turn may have written what the user moved, or the other way round
}

// divide says whose each of changes is. times are those of [touchTimes], and start is when
// the turn began, or zero.
func divide(changes []segno.Change, times map[string]time.Time, start time.Time, of func(segno.Change, time.Time) owner) division {
	own := make(map[string]owner, len(changes))
	changed := make(map[string]segno.Change, len(changes))
	for _, x := range changes {
		changed[x.Path] = x
	}
	for _, x := range changes {
		own[x.Path] = ownerOf(x, changed, times, start, of)
	}
	// A directory gets the owner of its contents, and all names of a file get the same owner.
	for i := len(changes) - 1; i >= 0; i-- {
		assignOwner(changes[i], changes[i+1:], own)
	}
	for _, x := range changes {
		assignParents(x, changed, own)
	}
	var s division
	for _, x := range changes {
		dir := x.From.Type == segno.EntityDir || x.To.Type == segno.EntityDir
		switch own[x.Path] {
		case ownTurn:
			s.turn = append(s.turn, x.Path)
		case ownOther:
			s.others = append(s.others, x.Path)
		case ownDoubt:
			if dir {
				s.dirs = append(s.dirs, x.Path)
			} else {
				s.doubt = append(s.doubt, x.Path)
			}
		}
	}
	return s
}

// assignOwner decides the owner of a path on which the paths below it, or another name of the
// same file, depend. after are the changes that sort after it, whose owners are known.
func assignOwner(x segno.Change, after []segno.Change, own map[string]owner) {
	for _, e := range []segno.Entity{x.From, x.To} {
		if e.Type != segno.EntityHardLink {
			continue
		}
		if first, changed := own[e.Target]; changed && first != own[x.Path] {
			own[e.Target], own[x.Path] = ownDoubt, ownDoubt
		} else if !changed && own[x.Path] == ownOther {
			own[x.Path] = ownDoubt
		}
		return
	}
	if x.From.Type != segno.EntityDir && x.To.Type != segno.EntityDir {
		return
	}
	below, others, all := 0, 0, own[x.Path]
	for _, y := range after {
		if !strings.HasPrefix(y.Path, x.Path+"/") {
			if y.Path > x.Path+"0" { // the byte after the slash
				break
			}
			continue
		}
		if below++; own[y.Path] == ownOther {
			others++
		}
	}
	switch {
	case below == 0:
	case others == below && (x.From.Type == segno.EntityNone || x.To.Type == segno.EntityNone):
		own[x.Path] = ownOther
	case x.From.Type == segno.EntityNone || x.To.Type == segno.EntityNone:
		own[x.Path] = ownTurn
	case x.From.Type != x.To.Type && (others < below || all != ownOther):
		own[x.Path] = ownDoubt // a file took a directory's place, or the other way round
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

// splitChanges separates the changes of a turn from later changes by others. It returns the
// snapshot that the turn left, and the paths in doubt.
func (tx *txn) splitChanges(ctx context.Context, b segno.Batch, c activity, before, now segno.Snapshot) (segno.Snapshot, []string, error) {
	w, ok := tx.Workspace.(treeComposer)
	if !ok || before.Tree == now.Tree {
		return now, nil, nil
	}
	changes, err := tx.Workspace.Diff(ctx, before.Tree, now.Tree)
	if tx.late && segno.KindOf(err) == segno.KindNotFound {
		return now, nil, nil // the state before waits for the store and cannot be read yet
	}
	if err != nil {
		return now, nil, fmt.Errorf("compare workspace: %w", err)
	}
	times, err := touchTimes(ctx, w, changes)
	if err != nil {
		return now, nil, err
	}
	c.root = tx.Workspace.Root()
	parts := divide(changes, times, c.start, c.ownerOf)
	if len(parts.others) == 0 {
		return now, parts.doubt, nil
	}
	left, err := w.Compose(ctx, b, now, before, parts.others)
	return left, parts.doubt, err
}

// doubtEntry records the paths of a turn that another author may have changed. Names are bytes,
// because a name need not be valid UTF-8.
func doubtEntry(paths []string, session segno.SessionID, at time.Time) (segno.Entry, error) {
	raw := make([][]byte, len(paths))
	for i, p := range paths {
		raw[i] = []byte(p)
	}
	body, err := json.Marshal(raw)
	return segno.Entry{Kind: segno.EntryDoubt, Session: session, Time: at, Name: "segno", Body: body}, err
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
