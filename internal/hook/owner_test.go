package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// scene is a project in which an agent that runs hooks and its user work at the same
// time. Clocks are real: the owner of a change depends on when a file changed.
type scene struct {
	*leasedProject
}

func newScene(t *testing.T, files map[string]string) *scene {
	t.Helper()
	c := &scene{newLeasedProject(t)}
	c.place.Now = time.Now
	if err := os.Remove(filepath.Join(c.project, "a")); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		c.write(name, content)
	}
	return c
}

func (c *scene) write(name, content string) {
	c.Helper()
	path := filepath.Join(c.project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.Fatal(err)
	}
}

func (c *scene) remove(name string) {
	c.Helper()
	if err := os.Remove(filepath.Join(c.project, name)); err != nil {
		c.Fatal(err)
	}
}

// files returns the files of the project, as "name=content" in order of name.
func (c *scene) files() string {
	c.Helper()
	var all []string
	err := filepath.WalkDir(c.project, func(path string, de os.DirEntry, err error) error {
		if err != nil || de.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(c.project, path)
		all = append(all, rel+"="+string(data))
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return strings.Join(all, " ")
}

func (c *scene) wantFiles(want string) {
	c.Helper()
	if got := c.files(); got != want {
		c.Errorf("the files are %q, want %q", got, want)
	}
}

// waitForClock waits until the file system's clock has advanced, so that the next write is later
// than the last one.
func (c *scene) waitForClock() {
	c.Helper()
	name := filepath.Join(c.T.TempDir(), "clock")
	from := time.Now()
	for {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			c.Fatal(err)
		}
		fi, err := os.Stat(name)
		if err != nil {
			c.Fatal(err)
		}
		if fi.ModTime().Sub(from) > 2*clockGrain {
			return
		}
	}
}

// agent writes one record of the conversation, with the members of a JSON object.
func (c *scene) agent(members string) {
	c.Helper()
	if err := os.MkdirAll(filepath.Dir(c.transcript()), 0o700); err != nil {
		c.Fatal(err)
	}
	f, err := os.OpenFile(c.transcript(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	parent := "null"
	if c.head != "" {
		parent = `"` + c.head + `"`
	}
	c.ids++
	c.head = fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", c.ids, c.ids)
	_, err = fmt.Fprintf(f, `{"parentUuid":%s,"isSidechain":false,%s,"uuid":"%s","timestamp":%q,"userType":"external","entrypoint":"cli","cwd":%q,"sessionId":"%s","version":"2.1.330"}`+"\n",
		parent, members, c.head, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), c.project, session)
	if err != nil {
		c.Fatal(err)
	}
}

// asks begins a turn with a prompt, as the agent records and reports it.
func (c *scene) asks(key, text string) {
	c.Helper()
	c.agent(fmt.Sprintf(`"type":"user","promptId":%q,"permissionMode":"default","message":{"role":"user","content":%q}`, key, text))
	c.sendEvent("UserPromptSubmit", "prompt_id", key, "prompt", text)
}

// says records an answer of the agent.
func (c *scene) says(text string) {
	c.Helper()
	c.agent(fmt.Sprintf(`"type":"assistant","message":{"model":"m","id":"msg-%d","type":"message","role":"assistant","content":[{"type":"text","text":%q}],"stop_reason":"end_turn"}`, c.ids, text))
}

// stops ends a turn. tasks continue in the background.
func (c *scene) stops(key string, tasks ...map[string]string) {
	c.Helper()
	c.says("done")
	if tasks == nil {
		tasks = []map[string]string{}
	}
	c.sendEvent("Stop", "prompt_id", key, "last_assistant_message", "done", "background_tasks", tasks)
}

// interrupt appends the record of an interruption. No event is fired.
func (c *scene) interrupt(key string) {
	c.Helper()
	c.agent(fmt.Sprintf(`"type":"user","promptId":%q,"interruptedMessageId":"msg","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}`, key))
}

// begins and ends send the events before and after a tool call.
func (c *scene) begins(key, id, tool string, input map[string]any, more ...any) {
	c.Helper()
	c.sendEvent("PreToolUse", slices.Concat([]any{"prompt_id", key, "tool_name", tool, "tool_use_id", id, "tool_input", input}, more)...)
}

func (c *scene) ends(key, id, tool string, input map[string]any, more ...any) {
	c.Helper()
	c.sendEvent("PostToolUse", slices.Concat([]any{"prompt_id", key, "tool_name", tool, "tool_use_id", id, "tool_input", input, "tool_response", "ok"}, more)...)
}

// writes makes a complete call of the tool that writes files.
func (c *scene) writes(key, id, name, content string, more ...any) {
	c.Helper()
	input := map[string]any{"file_path": filepath.Join(c.project, name), "content": content}
	c.begins(key, id, "Write", input, more...)
	c.write(name, content)
	c.ends(key, id, "Write", input, more...)
}

// runs makes a complete shell call. act is the effect of the command.
func (c *scene) runs(key, id, command string, act func()) {
	c.Helper()
	input := map[string]any{"command": command}
	c.begins(key, id, "Bash", input)
	act()
	c.ends(key, id, "Bash", input)
}

// moves makes a move as a command of the user does.
func (c *scene) moves(ask timeline.MoveRequest) (moved *timeline.MoveResult, err error) {
	c.Helper()
	c.as(segno.Lease{}, func(ctx context.Context, _ *local.Store, r *timeline.Timeline) error {
		moved, err = r.Move(ctx, ask, nil)
		return nil
	})
	return moved, err
}

// undo undoes turns and returns the paths in conflict.
func (c *scene) undo(turns int) (conflicts []string) {
	c.Helper()
	moved, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: turns})
	if err != nil {
		c.Fatal(err)
	}
	for _, x := range moved.Plan.Conflicts {
		conflicts = append(conflicts, x.Path)
	}
	return conflicts
}

func (c *scene) wantConflicts(got []string, want ...string) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("the conflicts are %q, want %q", got, want)
	}
}

// line returns the commits of the line of the thread's head, oldest first.
func (c *scene) line() (commits []segno.Node) {
	c.Helper()
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, r *timeline.Timeline) error {
		thread, err := r.CurrentThread(ctx)
		if err != nil {
			return err
		}
		head, err := st.Head(ctx, thread)
		if err != nil {
			return err
		}
		line, err := st.Load(ctx, head.Head, segno.Window{})
		if err != nil {
			return err
		}
		commits = line.Commits
		return nil
	})
	return commits
}

// history returns the line of the thread, oldest first: kinds of checkpoints, and prompts of turns.
func (c *scene) history() string {
	c.Helper()
	var all []string
	for _, n := range c.line() {
		cp := n.Checkpoint
		text := string(cp.Kind)
		if cp.Kind == segno.CheckpointTurn {
			text = fmt.Sprintf("%d %s", cp.Turn, cp.Prompt)
			if cp.Interrupted {
				text += " (interrupted)"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (c *scene) wantHistory(want string) {
	c.Helper()
	if got := c.history(); got != want {
		c.Errorf("the line is %q, want %q", got, want)
	}
}

// userTexts returns the user's messages and the notes in the newest turn's entries.
func (c *scene) userTexts() (all []string) {
	c.Helper()
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		for cp, err := range st.Checkpoints(ctx, segno.CheckpointQuery{}) {
			if err != nil || cp.Kind != segno.CheckpointTurn {
				continue
			}
			line, err := st.Load(ctx, cp.ID, segno.Window{Last: 1, Entries: true})
			if err != nil {
				return err
			}
			for _, e := range line.Commits[0].Entries {
				var text string
				if e.Name != "agent" && (e.ID == "" || e.Name == timeline.NoteTask) && json.Unmarshal(e.Body, &text) == nil {
					all = append(all, text)
				}
			}
			return nil
		}
		return nil
	})
	return all
}

// clockGrain is longer than the resolution of a file system's clock.
const clockGrain = 10 * time.Millisecond
