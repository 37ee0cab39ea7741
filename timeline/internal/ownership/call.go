package ownership

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/history/turns"
)

// Call is one tool call that can change files, with the time during which it ran.
type Call struct {
	ID, Tool string
	// From is the time at which the call began, and To the time at which it ended. Next is the time at which the turn
	// continued. Between To and Next, the agent runs the user's hooks, such as formatters, on the files that the tool
	// wrote.
	From, To, Next time.Time
	Lost           bool       // its end is not known, so To is not a limit
	Orphaned       bool       // its agent ended at To, before the result: the call is lost, and nothing is sure of it after To
	Confined       bool       // the tool writes only the paths that it names
	Failed         bool       // the agent reported an error
	Late           bool       // a message reported it, and may have taken longer than [Context.Delay] to arrive
	Content        segno.Hash // hash of the file that it wrote, if the input contains the whole file

	background bool // the input asks the agent not to wait for the command
	formats    bool // the tool may also have run a formatter on the file that it wrote, before it ended

	text string // contains the named paths; if the call is confined, one path per line
	// dirs are the directories, below the root or absolute, in which the call may have worked. Names in text may be relative to them.
	dirs  []string
	edits []edit // the changes to the only file that it names; nil if the input does not show them
	// patched has the changes of a patch to each file that it names, if the input shows them. It is nil if the call has no patch.
	patched map[string][]edit
	// seen is when each file changed last before the call, as far as this is known. It is zero if there was no file.
	seen map[string]time.Time
}

// Context has the facts about a turn that its entries do not contain.
type Context struct {
	// End is the time at which calls without a result ended. Zero means that it is not known.
	End time.Time
	// Left is the end of the turn. Until then, changes by processes that commands left behind belong to the turn, and
	// so do changes by the agent's hooks after the newest call. If Left is zero, these changes do not count.
	Left time.Time
	// Recorded is the time of the newest entry that a checkpoint of the turn contains, or zero. The checkpoint also contains the changes of
	// the formatters that ran after the calls that had ended by then.
	Recorded time.Time
	// Resolved is set if every call that the agent made has a result. A call without a result was
	// then not made.
	Resolved bool
	// Tasks maps the ids of background tasks to their ends. A zero time means that the end is not
	// known.
	Tasks map[string]time.Time
	// Delay is the longest time by which a call may have begun before its entry. An agent waits for a hook, but not for
	// the program that reads its messages.
	Delay time.Duration
	// Refused has the calls that the user did not permit. Permitted has the times at which the user first permitted calls.
	Refused   map[string]bool
	Permitted map[string]time.Time
	// Beside are entries of another turn of the session that ran at the same time as a task of this turn. An entry of
	// that turn also shows that the agent continued after a call.
	Beside []segno.Entry
	// Dir is the directory of the session. Relative paths are relative to it.
	Dir string
	// Resolve returns a path without symlinks. It may be nil.
	Resolve func(path string) string
}

// Calls returns the tool calls in entries that can change files.
func Calls(entries []segno.Entry, in Context) []Call {
	r := callReader{Context: in, at: map[string]int{}, ended: map[string]bool{}, unnamed: map[string]*unnamedCalls{}}
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case segno.EntryIntent:
			r.readIntent(e)
		case segno.EntryResult:
			r.readResult(e)
		case segno.EntryNote:
			if e.Name == NoteAgentEnded {
				r.orphan(e.Time)
			}
		}
	}
	begins, besides := intentTimes(entries), intentTimes(r.Beside)
	var calls []Call
	for _, c := range r.calls {
		id, announced := c.ID, c.From
		if r.Refused[id] || r.Resolved && id != "" && !r.ended[id] {
			continue // the agent did not make this call
		}
		// An agent may announce a call before it asks for permission, or only after it made the call, as Gemini CLI does.
		if at, ok := r.Permitted[id]; ok {
			c.From = at
		} else {
			c.From, c.Late = c.From.Add(-r.Delay), r.Delay > 0
		}
		if !r.ended[id] && c.endAsPatch(firstAfter(begins, announced)) {
			calls = append(calls, c)
			continue
		}
		if c.Orphaned {
			c.Next = c.To // no formatter runs
			calls = append(calls, c)
			continue
		}
		c.Next = r.Left
		if next := firstAfter(begins, c.To); !next.IsZero() {
			c.Next = next
		}
		if next := firstAfter(besides, c.To); !next.IsZero() && next.Before(c.Next) {
			c.Next = next
		}
		if !c.To.After(r.Recorded) {
			c.Next = c.To
		}
		calls = append(calls, c)
	}
	return calls
}

// endAsPatch sets the end of a patch without a result. It returns false if the call is none, or if the agent did not continue after it.
// Codex reports no end of a patch that failed, and of a command that is a patch, which it applies itself. Such a call ended when the
// agent continued, or soon after the beginning of a call that the agent made at the same time. next is when the agent began the next call.
func (c *Call) endAsPatch(next time.Time) bool {
	isPatch := strings.EqualFold(c.Tool, profile.ApplyPatch) ||
		agents.IsShell(c.Tool) && strings.Contains(c.text, profile.ApplyPatch) && strings.Contains(c.text, profile.PatchBegin)
	if !isPatch || next.IsZero() {
		return false
	}
	if end := next.Add(hookDelay); c.Lost || end.Before(c.To) {
		c.To, c.Lost = end, false
	}
	c.Next = c.To // a formatter does not run on a patch that failed
	return true
}

// intentTimes returns the times at which calls began, in the order of their entries. An entry may be late: the times leave out
// those before a time of an earlier entry, and thus increase.
func intentTimes(entries []segno.Entry) (times []time.Time) {
	for i := range entries {
		if e := &entries[i]; e.Kind == segno.EntryIntent && (len(times) == 0 || e.Time.After(times[len(times)-1])) {
			times = append(times, e.Time)
		}
	}
	return times
}

// firstAfter returns the first of increasing times that is after a time, or zero.
func firstAfter(times []time.Time, after time.Time) time.Time {
	i := sort.Search(len(times), func(i int) bool { return times[i].After(after) })
	if i == len(times) {
		return time.Time{}
	}
	return times[i]
}

// callReader reads calls from entries.
type callReader struct {
	Context
	calls []Call
	at    map[string]int // the index of a call by its id
	ended map[string]bool

	unnamed map[string]*unnamedCalls // the newest calls without an id, by their tool
}

// unnamedCalls are calls of one tool that ran at the same time and have no ids, as those of Gemini CLI. Nothing shows which
// result belongs to which call.
type unnamedCalls struct {
	calls []int // indexes
	ended int   // the number of results
}

// addUnnamed adds a call without an id. It ran beside the earlier calls of its tool, unless all of these have a result.
func (r *callReader) addUnnamed(tool string, call int) {
	u := r.unnamed[tool]
	if u == nil || u.ended >= len(u.calls) {
		u = &unnamedCalls{}
		r.unnamed[tool] = u
	}
	u.calls = append(u.calls, call)
}

// readIntent reads the beginning of a call. An agent may announce a call before the input is
// complete.
func (r *callReader) readIntent(e *segno.Entry) {
	tool := agents.Tool(e.Name)
	if !tool.ChangesFiles() {
		return
	}
	i, again := r.at[e.ID]
	if !again || e.ID == "" {
		i = len(r.calls)
		r.at[e.ID] = i
		r.calls = append(r.calls, Call{ID: e.ID, Tool: e.Name, From: e.Time, To: r.End, Lost: r.End.IsZero()})
		if e.ID == "" {
			r.addUnnamed(e.Name, i)
		}
	}
	c := &r.calls[i]
	in := turns.ReadIntent(e.Body)
	if in.IsClipped {
		in = turns.Intent{Input: e.Body, Changed: in.Changed} // a part of it may be missing
	}
	files := tool.Files(in.Input)
	if tool.Effect == profile.Writes && len(files) == 0 {
		files = in.Files
	}
	// If the input of a tool that writes named files names none, the tool may have written any
	// file.
	if c.Confined = len(files) > 0; !c.Confined {
		c.addText(e.Body)
		c.background = IsBackground(in.Input)
		r.addDirs(c, in.Input)
		return
	}
	c.text, c.edits, c.patched, c.Content = "", nil, nil, segno.Hash{}
	patched := patchEdits(tool, in.Input)
	if patched != nil {
		c.patched = map[string][]edit{}
	}
	for i, file := range files {
		var changed *time.Time
		if len(in.Changed) == len(files) {
			changed = in.Changed[i]
		}
		r.addFile(c, file, changed, patched[file])
	}
	if len(files) == 1 {
		c.edits = editsOf(tool, in.Input)
	}
	c.formats = formats(in.Input)
	if len(c.edits) == 1 && c.edits[0].whole {
		c.Content = segno.HashOf([]byte(c.edits[0].after))
	}
}

// addText adds the whole input of a call, because any part of it may be a path.
func (c *Call) addText(body json.RawMessage) {
	var all any
	if json.Unmarshal(body, &all) == nil {
		var text strings.Builder
		collectStrings(&text, all)
		c.text += text.String()
	}
}

// addDirs adds the directories in which a command may have worked: that of the session, or the one that the input of the call names,
// and those to which the command changes.
func (r *callReader) addDirs(c *Call, input json.RawMessage) {
	var in struct {
		OpenCode string `json:"workdir"` // and Codex
		Gemini   string `json:"dir_path"`
	}
	_ = json.Unmarshal(input, &in) // the input of another tool may have another form
	add := func(dir, name string) string {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if filepath.IsAbs(name) && r.Resolve != nil {
			name = r.Resolve(name)
		}
		if !slices.Contains(c.dirs, name) {
			c.dirs = append(c.dirs, name)
		}
		return name
	}
	start := add(r.Dir, cmp.Or(in.OpenCode, in.Gemini))
	at, before := start, ""
	for word := range strings.FieldsFuncSeq(c.text, isNotInPath) {
		if before == "cd" || before == "pushd" || before == "-C" { // as in 'make -C dir'
			if len(c.dirs) >= maxDirs {
				return
			}
			add(start, word) // the command may have left the previous directory
			at = add(at, word)
		}
		before = word
	}
}

// maxDirs is how many directories of one command count.
const maxDirs = 32

// addFile adds a file that the call names. changed is when it changed last before the call, or nil. patched are the changes of a patch.
func (r *callReader) addFile(c *Call, file string, changed *time.Time, patched []edit) {
	if !filepath.IsAbs(file) && r.Dir != "" {
		file = filepath.Join(r.Dir, file)
	}
	c.addName(file, changed, patched)
	if r.Resolve == nil || !filepath.IsAbs(file) {
		return
	}
	if real := r.Resolve(file); real != file {
		c.addName(real, changed, patched)
	}
}

func (c *Call) addName(file string, changed *time.Time, patched []edit) {
	c.text += file + "\n"
	if len(patched) > 0 {
		c.patched[filepath.Clean(file)] = patched
	}
	if changed == nil {
		return
	}
	if c.seen == nil {
		c.seen = map[string]time.Time{}
	}
	c.seen[filepath.Clean(file)] = *changed
}

// hookDelay is the longest time between the end of a call and the time that its hook records.
const hookDelay = 5 * time.Second

// readResult reads the end of a call.
func (r *callReader) readResult(e *segno.Entry) {
	if e.ID == "" {
		r.readUnnamedResult(e)
		return
	}
	if i, ok := r.at[e.ID]; ok {
		r.ended[e.ID] = true
		r.end(&r.calls[i], e)
	}
}

// readUnnamedResult reads the end of a call without an id. Calls that ran at the same time end with the last of their results.
func (r *callReader) readUnnamedResult(e *segno.Entry) {
	u := r.unnamed[e.Name]
	if u == nil {
		return
	}
	if u.ended++; u.ended < len(u.calls) {
		return
	}
	for _, i := range u.calls {
		c := &r.calls[i]
		r.end(c, e)
		c.Failed = c.Failed && len(u.calls) == 1
	}
}

// NoteAgentEnded is the name of a note of the moment at which the agent's process ended in the middle of a turn that another process
// continues.
const NoteAgentEnded = "agent ended"

// orphan marks the calls without a result when their agent ends.
func (r *callReader) orphan(at time.Time) {
	for i := range r.calls {
		if c := &r.calls[i]; c.ID != "" && !r.ended[c.ID] && !c.Orphaned {
			c.To, c.Lost, c.Orphaned = at, true, true
		}
	}
}

// end ends a call with the entry of its result.
func (r *callReader) end(c *Call, e *segno.Entry) {
	result := turns.ReadResult(e.Body)
	c.To, c.Lost, c.Orphaned = e.Time, false, false
	c.Failed = result.HasError || result.Interrupted || result.Status == "failed"
	// The hook at the beginning of a call runs before the agent asks the user for permission.
	if took := result.Took(); took > 0 {
		if began := e.Time.Add(-took - hookDelay); began.After(c.From) {
			c.From = began
		}
	}
	if until, ok := r.Tasks[StartedTask(e.Body)]; ok {
		c.To, c.Lost = until, until.IsZero()
	} else if r.Left.After(c.To) && agents.IsShell(c.Tool) && (c.background || LeavesProcess(c.text)) {
		c.To = r.Left
	}
}

// keeps reports whether the paths that the call names certainly exist after the call.
func (c *Call) keeps() bool { return c.Confined && !agents.Tool(c.Tool).Removes }

// deletes reports whether the call may have deleted a path that it names.
func (c *Call) deletes() bool {
	if c.Confined {
		return agents.Tool(c.Tool).Removes
	}
	for _, word := range []string{"rm", "mv", "unlink", "rmdir", "git", "find", "del", "trash", "shred"} {
		if containsWord(c.text, word) {
			return true
		}
	}
	return false
}

// rewrites reports whether a command may have changed a file that it names, and not only read or run it.
func (c *Call) rewrites() bool {
	for _, word := range []string{"sed", "perl", "awk", "ed", "ex", "vi", "vim", "patch", "tee", "dd", "cp", "mv", "install", "git", "truncate",
		"gofmt", "goimports", "prettier", "black", "ruff", "rustfmt", "-i", "-w", "--write", "--fix", "--in-place"} {
		if containsWord(c.text, word) {
			return true
		}
	}
	return strings.ContainsAny(c.text, ">")
}

// IsBackground reports whether the input of a call of a shell asks the agent not to wait for the command.
func IsBackground(input json.RawMessage) bool {
	var in struct {
		Gemini bool `json:"is_background"`
		Claude bool `json:"run_in_background"`
	}
	return json.Unmarshal(input, &in) == nil && (in.Gemini || in.Claude)
}

// LeavesProcess reports whether a command may leave a running process behind.
func LeavesProcess(command string) bool {
	for _, word := range []string{"nohup", "setsid", "disown", "daemonize", "tmux", "screen"} {
		if containsWord(command, word) {
			return true
		}
	}
	for i := range len(command) {
		if command[i] != '&' || i > 0 && strings.IndexByte("&><|\\", command[i-1]) >= 0 {
			continue
		}
		if i+1 == len(command) || strings.IndexByte(" \t\n;)", command[i+1]) >= 0 {
			return true
		}
	}
	return false
}

// StoppedTask returns the background task that a call stops, according to its tool and its input, or "".
func StoppedTask(tool string, input json.RawMessage) string {
	var in struct {
		Task  string `json:"task_id"`
		Shell string `json:"shell_id"` // the name in older versions
	}
	if name := strings.ToLower(tool); name != "taskstop" && name != "killshell" || json.Unmarshal(input, &in) != nil {
		return ""
	}
	return cmp.Or(in.Task, in.Shell)
}

// StartedTask returns the background task that a call started, according to its result, or "".
func StartedTask(result json.RawMessage) string {
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
