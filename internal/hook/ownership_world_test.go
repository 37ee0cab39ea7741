package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// world is a project in which agents and a user write files. It records the author of every write,
// so that a test can check whether a move changed a byte of another author.
type world struct {
	*rapid.T
	place   local.Place
	project string
	agents  []*simAgent
	writes  []write // oldest first
	event   bool    // an agent had an event since the newest write
	n       int     // a counter that makes contents, ids and keys unique
}

// write is one change of a file; content "" deletes it.
type write struct {
	path, content string
	author        string          // the key of the turn that wrote, or user
	named         bool            // a turn wrote it with a tool that named the path
	during        map[string]bool // for a write of the user: the turns in the foreground at that time
	claimed       map[string]bool // the turns in during whose windows contain the write
	undone        bool            // an undo reverted it
}

// user is the author of writes that no turn made.
const user = "user"

// worldPaths are the files of a world. Each is one line, so that two changes of
// a file always overlap. [TestAnyLines] has files of several lines.
func worldPaths() []string { return []string{"a", "b", "c", "d", "src/e"} }

// simAgent is one Claude Code: a process, a session and the hooks that it runs.
type simAgent struct {
	*world
	name    string
	process *exec.Cmd
	stdin   io.Closer // closing it ends the process
	session segno.SessionID
	path    string // of the transcript
	parent  string // the newest record of it
	turns   []*simTurn
}

// simTurn is the agent's view of a turn.
type simTurn struct {
	key     string
	begin   int                 // the number of writes when the turn began
	before  map[string]string   // the files when it began
	left    map[string]string   // the files when it ended normally
	open    bool                // in the foreground
	overlap bool                // another turn was open or running in the background during it
	doubt   bool                // it was interrupted, or left work in the background
	tasks   []simTask           // background tasks that still run
	tasked  bool                // it left work in the background
	told    map[string]bool     // paths that another turn of the agent had in doubt
	moved   map[segno.Hash]bool // contents that moves wrote, or may have written, while it was open
	removed map[string]bool     // paths that moves deleted, or may have deleted, while it was open
	id      string              // id of its newest prompt
	ran     bool                // one of its commands ran
	running bool                // one of its commands runs now
	gap     string              // the path that its newest call wrote, if that tool writes named files, until the next call
}

// simTask is background work of a turn.
type simTask struct {
	turn  *simTurn
	id    string
	shell bool // a command, else a subagent
}

func newWorld(t *rapid.T, dir string) *world {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, project: filepath.Join(dir, "project"), place: local.Place{Store: filepath.Join(dir, "store"),
		UserHome: filepath.Join(dir, "home"), Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}, Now: time.Now}}
	for _, d := range []string{filepath.Join(w.project, "src"), filepath.Join(w.place.Homes["claude"], "sessions")} {
		w.must(os.MkdirAll(d, 0o755))
	}
	w.must(os.WriteFile(filepath.Join(w.project, "src", "main"), nil, 0o644)) // no undo removes the directory
	for _, p := range worldPaths()[:3] {
		w.must(os.WriteFile(filepath.Join(w.project, p), []byte(w.unique("start")), 0o644))
	}
	for _, name := range []string{"one", "two"} {
		w.agents = append(w.agents, &simAgent{world: w, name: name})
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) unique(what string) string {
	w.n++
	return fmt.Sprintf("%s-%d", what, w.n)
}

// files returns the contents of the project.
func (w *world) files() map[string]string {
	w.Helper()
	m := map[string]string{}
	for _, p := range worldPaths() {
		data, err := os.ReadFile(filepath.Join(w.project, p))
		if err == nil {
			m[p] = string(data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			w.Fatal(err)
		}
	}
	return m
}

// change writes new content to a path, or deletes the file, and records the author.
func (w *world) change(p, author string) {
	w.Helper()
	content := ""
	if rapid.IntRange(0, 3).Draw(w.T, "way") > 0 {
		content = w.unique(author)
	}
	w.put(p, content, author, false)
}

// rename lets the user rename a file, over another one if that exists.
func (w *world) rename(from, to string) {
	w.Helper()
	content, exists := w.files()[from]
	if !exists || from == to {
		return
	}
	w.separate(user)
	w.must(os.Rename(filepath.Join(w.project, from), filepath.Join(w.project, to)))
	w.remember(write{path: from, author: user})
	w.remember(write{path: to, author: user, content: content})
}

// separate waits until the next write of an author differs by more than the grain of the file system's clock from the
// last write of another author. For the user, it also waits for that distance from the last event.
func (w *world) separate(author string) {
	w.Helper()
	if i := len(w.writes) - 1; i >= 0 && w.writes[i].author != author || author == user && w.event {
		w.waitForClock()
	}
}

// remember records a write. A write of the user is in the window of a turn if a command of the turn runs, or if the
// newest call of the turn was a tool that wrote the path. Until the turn continues, the user cannot be distinguished from
// a formatter.
func (w *world) remember(c write) {
	w.Helper()
	if c.author == user {
		c.during, c.claimed = map[string]bool{}, map[string]bool{}
		for _, a := range w.agents {
			for _, t := range a.turns {
				shell := slices.ContainsFunc(t.tasks, func(task simTask) bool { return task.shell })
				c.during[t.key] = t.open
				c.claimed[t.key] = t.running || t.open && (shell || t.gap == c.path)
			}
		}
	}
	w.writes, w.event = append(w.writes, c), false
	w.Logf("%s writes %s = %q", c.author, c.path, c.content)
}

// put writes content to a path, or deletes the file if the content is empty. An editor replaces a
// file by renaming. A shell writes in place.
// named is set if a tool named the path.
func (w *world) put(p, content, author string, named bool) {
	w.Helper()
	name := filepath.Join(w.project, p)
	w.separate(author)
	switch {
	case content == "":
		if err := os.Remove(name); errors.Is(err, fs.ErrNotExist) {
			return // nothing was written
		} else if err != nil {
			w.Fatal(err)
		}
	case rapid.Bool().Draw(w.T, "renames"):
		w.must(os.WriteFile(name+".new", []byte(content), 0o644))
		w.must(os.Rename(name+".new", name))
	default:
		w.must(os.WriteFile(name, []byte(content), 0o644))
	}
	w.remember(write{path: p, author: author, content: content, named: named})
}

// front returns the turn that the agent works on in the foreground, or nil.
func (a *simAgent) front() *simTurn {
	for _, t := range a.turns {
		if t.open {
			return t
		}
	}
	return nil
}

// running returns the background tasks of all turns.
func (a *simAgent) running() (tasks []simTask) {
	for _, t := range a.turns {
		tasks = append(tasks, t.tasks...)
	}
	return tasks
}

// promptID returns the id of the prompt that is answered while a task of a turn works.
func (a *simAgent) promptID(t *simTurn) string {
	if front := a.front(); front != nil {
		return front.id
	}
	return t.id
}

// start begins the agent's process and, if it has none, its session.
func (a *simAgent) start() {
	a.Helper()
	if a.process != nil {
		return
	}
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	a.must(err)
	a.must(cmd.Start())
	a.process, a.stdin = cmd, stdin
	if a.session == "" {
		a.n++
		a.session = segno.SessionID(fmt.Sprintf("%08x-0000-4000-8000-%012x", a.n, a.n))
		a.path = filepath.Join(a.place.Homes["claude"], "projects", claude.Slug(a.project), string(a.session)+".jsonl")
		a.must(os.MkdirAll(filepath.Dir(a.path), 0o700))
	}
	a.register()
}

func (a *simAgent) registry() string {
	return filepath.Join(a.place.Homes["claude"], "sessions", fmt.Sprintf("%d.json", a.process.Process.Pid))
}

// register writes the agent's entry in its registry of live processes.
func (a *simAgent) register() {
	pid := a.process.Process.Pid
	data, err := json.Marshal(map[string]any{"pid": pid, "sessionId": a.session, "procStart": proc.Start(pid), "cwd": a.project})
	a.must(err)
	a.must(os.WriteFile(a.registry(), data, 0o600))
}

// kill ends the process with SIGKILL: no hook fires, and the registry keeps its entry.
func (a *simAgent) kill() {
	a.Helper()
	if a.process == nil {
		return
	}
	a.must(a.process.Process.Kill())
	_ = a.process.Wait() // killed
	a.process, a.stdin = nil, nil
	a.Logf("agent %s is killed", a.name)
}

func (a *simAgent) stopped() {
	if a.process != nil {
		_ = a.stdin.Close()
		_ = a.process.Wait()
		a.process = nil
	}
}

// hook fires an event of the session.
func (a *simAgent) hook(name string, more map[string]any) {
	a.Helper()
	a.event = true
	p := map[string]any{"hook_event_name": name, "session_id": a.session, "cwd": a.project, "transcript_path": a.path}
	for k, v := range more {
		p[k] = v
	}
	data, err := json.Marshal(p)
	a.must(err)
	var out bytes.Buffer
	hook.Run(context.Background(), "claude", hook.Event{Place: a.place, Stdin: bytes.NewReader(data), Stdout: &out,
		Getenv: func(string) string { return "" }, PID: a.process.Process.Pid})
}

// record appends a record to the transcript.
func (a *simAgent) record(kind, promptID string, message any, more map[string]any) {
	a.Helper()
	a.n++
	id := fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", a.n, a.n)
	r := map[string]any{"type": kind, "uuid": id, "parentUuid": nil, "isSidechain": false, "sessionId": a.session, "cwd": a.project,
		"userType": "external", "entrypoint": "cli", "version": "2.1.330", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "message": message}
	if a.parent != "" {
		r["parentUuid"] = a.parent
	}
	if kind == "user" {
		r["promptId"] = promptID
	}
	for k, v := range more {
		r[k] = v
	}
	a.parent = id
	a.line(r)
}

func (a *simAgent) line(r map[string]any) {
	a.Helper()
	data, err := json.Marshal(r)
	a.must(err)
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	a.must(err)
	_, err = f.Write(append(data, '\n'))
	a.must(errors.Join(err, f.Close()))
}

func message(role, text string) map[string]any {
	m := map[string]any{"role": role, "content": text}
	if role == "assistant" {
		m["content"], m["stop_reason"] = []any{map[string]string{"type": "text", "text": text}}, "end_turn"
	}
	return m
}

// prompt begins a turn.
func (a *simAgent) prompt() {
	a.Helper()
	a.start()
	key := a.unique("turn-" + a.name)
	t := &simTurn{key: key, id: key, told: map[string]bool{}, moved: map[segno.Hash]bool{}, removed: map[string]bool{}, begin: len(a.writes), before: a.files(), open: true}
	for _, o := range a.agents {
		for _, u := range o.turns {
			if u.open || len(u.tasks) > 0 {
				t.overlap, u.overlap = true, true
			}
		}
	}
	a.Logf("prompt %s", t.key)
	a.hook("UserPromptSubmit", map[string]any{"prompt_id": t.key, "prompt": t.key})
	a.record("user", t.key, message("user", t.key), nil)
	a.turns = append(a.turns, t)
}

// tool changes a path in one tool call. A call of Write has the path and the content, and one of
// Edit the path. A command may delete the path, and need not name it.
func (a *simAgent) tool(t *simTurn, path, agentID string) {
	a.Helper()
	file := filepath.Join(a.project, path)
	content := a.unique(t.key)
	var name string
	var input map[string]any
	named := true
	switch rapid.IntRange(0, 4).Draw(a.T, "tool") {
	case 0, 1:
		name, input = "Write", map[string]any{"file_path": file, "content": content}
	case 2:
		name, input = "Edit", map[string]any{"file_path": file, "old_string": "was", "new_string": content}
	default:
		command := rapid.SampledFrom([]string{"make", "ls src", "go test ./src"}).Draw(a.T, "command")
		if _, err := os.Lstat(file); err == nil && rapid.IntRange(0, 2).Draw(a.T, "deletes") == 0 {
			command, content = "make clean", ""
		}
		if named = rapid.Bool().Draw(a.T, "names"); named {
			command = "echo > " + path
			if content == "" {
				command = "rm " + path
			}
		}
		name, input = "Bash", map[string]any{"command": command}
	}
	call := map[string]any{"prompt_id": a.promptID(t), "tool_name": name, "tool_use_id": a.unique("toolu"), "tool_input": input}
	if agentID != "" {
		call["agent_id"], call["agent_type"] = agentID, "general-purpose"
	}
	a.Logf("%s calls %s %v for %s", t.key, name, input["command"], path)
	a.separate(t.key)
	a.hook("PreToolUse", call)
	t.gap, t.running = "", name == "Bash"
	t.ran = t.ran || t.running
	userBefore := t.running && rapid.IntRange(0, 5).Draw(a.T, "the user before") == 0
	if userBefore {
		a.userWrites()
	}
	a.put(path, content, t.key, named)
	if t.running && rapid.IntRange(0, 5).Draw(a.T, "the user after") == 0 {
		a.userWrites()
	}
	call["tool_response"] = "ok"
	a.hook("PostToolUse", call)
	if t.running = false; name != "Bash" {
		t.gap = path
	}
}

// userWrites lets the user change, make, delete or rename a file.
func (w *world) userWrites() {
	w.Helper()
	path := rapid.SampledFrom(worldPaths()).Draw(w.T, "the user's path")
	if rapid.IntRange(0, 4).Draw(w.T, "the user renames") == 0 {
		w.rename(path, rapid.SampledFrom(worldPaths()).Draw(w.T, "to"))
		return
	}
	w.change(path, user)
}

// stop ends the turn with a Stop event.
func (a *simAgent) stop() {
	a.Helper()
	t := a.front()
	last := a.unique("done")
	a.record("assistant", t.id, message("assistant", last), nil)
	t.open, t.left = false, a.files()
	a.Logf("stop %s", t.key)
	a.hook("Stop", map[string]any{"prompt_id": t.id, "last_assistant_message": last, "background_tasks": a.background()})
}

// background returns the unfinished tasks of the whole session, as the Stop event of the newest
// version lists them.
func (a *simAgent) background() []any {
	out := []any{}
	for _, task := range a.running() {
		kind := "subagent"
		if task.shell {
			kind = "shell"
		}
		out = append(out, map[string]any{"id": task.id, "type": kind, "status": "running"})
	}
	return out
}

// escape interrupts the turn as Esc does: the transcript records the interruption, and no hook
// fires.
func (a *simAgent) escape() {
	a.Helper()
	t := a.front()
	a.record("user", t.id, map[string]any{"role": "user", "content": []any{map[string]string{"type": "text", "text": "[Request interrupted by user]"}}},
		map[string]any{"interruptedMessageId": "msg"})
	t.open, t.doubt = false, true
	a.Logf("escape %s", t.key)
	a.waitForClock()
}

// waitForClock waits until the clock of the file system has advanced. Writes after an interruption
// then have a later time than writes before it.
func (w *world) waitForClock() {
	w.Helper()
	name := filepath.Join(filepath.Dir(w.project), "clock")
	var first time.Time
	for {
		w.must(os.WriteFile(name, []byte("x"), 0o600))
		fi, err := os.Stat(name)
		w.must(err)
		switch {
		case first.IsZero():
			first = fi.ModTime()
		case fi.ModTime().Sub(first) > 20*time.Millisecond:
			return
		default:
			time.Sleep(time.Millisecond) // other processes need the processor
		}
	}
}

// restart ends the agent. The next prompt starts a new one without a conversation.
func (a *simAgent) restart() {
	a.Helper()
	a.stopped()
	a.session, a.path, a.parent, a.turns = "", "", "", nil
}

// attach continues the session that a move left for the agent.
func (a *simAgent) attach(l *segno.Link) {
	a.Helper()
	a.stopped()
	a.session, a.path, a.parent = l.Session, l.Path, ""
	if a.path == "" {
		a.path = filepath.Join(a.place.Homes["claude"], "projects", claude.Slug(a.project), string(a.session)+".jsonl")
	}
	data, err := os.ReadFile(a.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		var r struct{ UUID string }
		if json.Unmarshal([]byte(line), &r) == nil && r.UUID != "" {
			a.parent = r.UUID
		}
	}
}

// at calls f with the project's timeline.
func (w *world) at(f func(ctx context.Context, s *local.Store, site *timeline.Timeline) error) error {
	ctx := context.Background()
	s, err := w.place.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	rec, err := s.Register(ctx, w.project)
	if err != nil {
		return err
	}
	site, err := s.Timeline(rec, nil)
	if err != nil {
		return err
	}
	return f(ctx, s, site)
}

// newest returns the thread of the agent's session, and the key of the turn that an undo of the
// thread would revert, or "".
func (a *simAgent) newest() (thread segno.ThreadID, key string) {
	a.Helper()
	a.must(a.at(func(ctx context.Context, s *local.Store, site *timeline.Timeline) error {
		for t, err := range s.Threads(ctx, segno.ThreadQuery{Session: a.session, Limit: 1}) {
			if err != nil {
				return err
			}
			thread = t.ID
		}
		if thread == "" {
			return nil
		}
		head, err := s.Head(ctx, thread)
		if err != nil {
			return err
		}
		line, err := s.Load(ctx, head.Head, segno.Window{})
		if err != nil {
			return err
		}
		for _, c := range slices.Backward(line.Commits) {
			if c.Checkpoint != nil && c.Checkpoint.Kind == segno.CheckpointTurn {
				key = string(c.Checkpoint.Key)
				return nil
			}
		}
		return nil
	}))
	return thread, key
}
