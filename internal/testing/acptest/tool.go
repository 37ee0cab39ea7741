package acptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

func toolText(text string) []any {
	return []any{map[string]any{"type": "content", "content": map[string]string{"type": "text", "text": text}}}
}

// call executes one tool call, from its announcement to its result.
func (t *turn) call(i int, s Step, view modelView) error {
	id := "call_" + newID()[:13]
	if names(view.plain, s.Line) && !t.Careless {
		return t.appendIfMissing(id, i, s)
	}
	if err := t.session.add(record{Type: "call", ID: id, Text: "append " + s.Line}); err != nil {
		return err
	}
	announced := map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": "append " + s.Line, "kind": "execute",
		"status": "pending", "rawInput": map[string]string{"line": s.Line}}
	if s.File != "" && !s.Child {
		announced["kind"], announced["locations"] = "edit", []any{map[string]string{"path": filepath.Join(t.session.cwd, s.File)}}
	}
	t.update(t.session, announced)
	if s.Ask || t.Ask {
		granted, err := t.permission(id, s)
		if err != nil {
			return err
		}
		if !granted {
			return t.result(id, "failed", "refused "+s.Line)
		}
	}
	t.update(t.session, map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"})
	if s.Hold != "" {
		if err := t.waitFor(s.Hold); err != nil {
			return err
		}
	}
	return t.perform(id, i, s)
}

// perform executes an announced tool call, with its fault.
func (t *turn) perform(id string, i int, s Step) error {
	if err := t.ctx.Err(); err != nil && !t.Patient {
		return err
	}
	strikes := false
	if s.Strike != "" {
		var err error
		if strikes, err = t.takeFault(i, s); err != nil {
			return err
		}
	}
	at := func(point string) bool { return strikes && s.Strike == point }
	if strikes && s.How == "child" {
		return t.childDies(s, at("intent"))
	}
	if at("intent") {
		return t.die(s.How)
	}
	if err := t.append(s, ""); err != nil {
		return err
	}
	if at("effect") {
		return t.die(s.How)
	}
	text := "appended " + s.Line
	if err := t.session.add(record{Type: "result", ID: id, Text: text}); err != nil {
		return err
	}
	if at("recorded") {
		return t.die(s.How)
	}
	t.completed(id, "completed", text)
	if at("result") {
		return t.die(s.How)
	}
	return nil
}

func (t *turn) completed(id, status, text string) {
	t.update(t.session, map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
		"content": toolText(text), "rawOutput": text})
}

func (t *turn) result(id, status, text string) error {
	if err := t.session.add(record{Type: "result", ID: id, Text: text}); err != nil {
		return err
	}
	t.completed(id, status, text)
	return nil
}

// appendIfMissing reads the ledger for a line, and appends the line if it is missing.
func (t *turn) appendIfMissing(id string, i int, s Step) error {
	if err := t.session.add(record{Type: "call", ID: id, Text: "look for " + s.Line}); err != nil {
		return err
	}
	t.update(t.session, map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": "look for " + s.Line, "kind": "read",
		"status": "pending", "rawInput": map[string]string{"look": s.Line}})
	lines, err := ReadLedger(t.LedgerFile())
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line == s.Line {
			return t.result(id, "completed", "it is there: appended "+s.Line)
		}
	}
	if err := t.result(id, "completed", "it is not there: "+s.Line); err != nil {
		return err
	}
	return t.call(i, s, modelView{})
}

// permission asks the client whether to run the call.
func (t *turn) permission(id string, s Step) (bool, error) {
	ctx := t.ctx
	if t.Patient {
		ctx = context.WithoutCancel(ctx)
	}
	m, err := t.ask(ctx, "session/request_permission", map[string]any{"sessionId": t.session.id,
		"toolCall": map[string]any{"toolCallId": id, "title": "append " + s.Line, "rawInput": map[string]string{"line": s.Line}},
		"options": []any{map[string]string{"optionId": "allow", "name": "Allow", "kind": "allow_once"},
			map[string]string{"optionId": "reject", "name": "Reject", "kind": "reject_once"}}})
	if err != nil {
		return false, err
	}
	if e := m.Err(); e != nil {
		return false, e
	}
	switch m.Text(m.Find(m.Result, "outcome", "outcome")) {
	case "selected":
		return m.Text(m.Find(m.Result, "outcome", "optionId")) == "allow", nil
	default:
		return false, context.Canceled
	}
}

// append executes the tool, in this process or in a child process.
func (t *turn) append(s Step, death string) error {
	if s.Tool != "ledger" {
		return fmt.Errorf("acptest: no tool is called %s", s.Tool)
	}
	job := toolRun{Config: t.Config, Line: s.Line, Death: death}
	if s.File != "" {
		job.File = filepath.Join(t.session.cwd, s.File)
	}
	if !s.Child && death == "" {
		return job.append()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, toolArg, string(encode(job))) // only a kill of the agent's group ends it
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}

// childDies makes the tool's process kill itself before or after its work, and fails the
// turn.
func (t *turn) childDies(s Step, before bool) error {
	death := "after"
	if before {
		death = "before"
	}
	var killed *exec.ExitError
	if err := t.append(s, death); !errors.As(err, &killed) {
		return fmt.Errorf("acptest: the tool should have been killed: %v", err)
	}
	return t.fail("claude.gone")
}

// toolRun is the task of a tool process.
type toolRun struct {
	Config Config `json:"config"`
	Line   string `json:"line"`
	File   string `json:"file,omitempty"`
	Death  string `json:"death,omitempty"` // before, after
}

// append adds the line first to the file that the step names, and then to the ledger, so
// that each line of the ledger is also in the file.
func (j toolRun) append() error {
	if j.File != "" {
		lines, err := ReadLedger(j.File)
		if err != nil {
			return err
		}
		if !slices.Contains(lines, j.Line) {
			if err := appendTo(j.File, []byte(j.Line+"\n")); err != nil {
				return err
			}
		}
	}
	return appendDurably(j.Config.LedgerFile(), []byte(j.Line+"\n"))
}

func toolMain(_ context.Context, args []string) error {
	var j toolRun
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	if err := j.Config.notePID("tool", os.Getpid()); err != nil {
		return err
	}
	if j.Death == "before" {
		return killSelf()
	}
	if err := j.append(); err != nil {
		return err
	}
	if j.Death == "after" {
		return killSelf()
	}
	return nil
}

// killSelf sends SIGKILL to this process.
func killSelf() error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	<-time.After(time.Minute)
	return errors.New("acptest: still alive")
}

// notePID records the id of a process, so that tests can find it.
func (c Config) notePID(kind string, pid int) error {
	return appendTo(filepath.Join(c.Dir, "pids"), fmt.Appendf(nil, "%s %d\n", kind, pid))
}

// PIDs returns the ids of all processes of a kind, "agent" or "tool", that ever ran in Dir,
// oldest first.
func (c Config) PIDs(kind string) ([]int, error) {
	var all []int
	err := eachLine(filepath.Join(c.Dir, "pids"), func(line []byte) error {
		var k string
		var pid int
		if _, err := fmt.Sscan(string(line), &k, &pid); err != nil {
			return err
		}
		if k == kind {
			all = append(all, pid)
		}
		return nil
	})
	return all, err
}
