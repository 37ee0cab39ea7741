package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// standIn plays one turn of Claude Code: it writes a transcript of the shape
// Claude Code 2.1 writes, runs a shell command and fires the hooks around it.
//
//	agent [-nostop] SESSION PROMPT [SHELL COMMAND]
type standIn struct {
	session, prompt, command string
	file, dir                string
	parent                   string
	promptID                 string
	lines                    bytes.Buffer
}

func agentMain() {
	if err := playTurn(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func playTurn(args []string) error {
	stop := true
	if len(args) > 0 && args[0] == "-nostop" {
		stop, args = false, args[1:]
	}
	if len(args) < 2 {
		return errors.New("usage: agent [-nostop] SESSION PROMPT [COMMAND]")
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	slug := regexp.MustCompile("[^A-Za-z0-9]").ReplaceAllString(dir, "-")
	a := &standIn{session: args[0], prompt: args[1], dir: dir, promptID: segno.NewID(),
		file: filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", slug, args[0]+".jsonl")}
	if len(args) > 2 {
		a.command = args[2]
	}
	if err := a.readParent(); err != nil {
		return err
	}
	if err := a.fire("UserPromptSubmit", map[string]any{"prompt": a.prompt}); err != nil {
		return err
	}
	a.say("user", map[string]any{"role": "user", "content": a.prompt})
	if a.command != "" {
		if err := a.call(); err != nil {
			return err
		}
	}
	if !stop {
		return a.flush()
	}
	answer := "answer to " + a.prompt
	a.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(),
		"content": []any{map[string]string{"type": "text", "text": answer}}, "stop_reason": "end_turn"})
	if err := a.flush(); err != nil {
		return err
	}
	return a.fire("Stop", map[string]any{"last_assistant_message": answer})
}

// call runs the shell command between the hooks of a tool call.
func (a *standIn) call() error {
	id := "toolu_" + segno.NewID()
	input := map[string]string{"command": a.command}
	a.say("assistant", map[string]any{"role": "assistant", "id": "msg_" + segno.NewID(),
		"content": []any{map[string]any{"type": "tool_use", "id": id, "name": "Bash", "input": input}}, "stop_reason": "tool_use"})
	if err := a.flush(); err != nil {
		return err
	}
	tool := map[string]any{"tool_name": "Bash", "tool_use_id": id, "tool_input": input}
	if err := a.fire("PreToolUse", tool); err != nil {
		return err
	}
	out, err := exec.Command("sh", "-c", a.command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", a.command, err, out)
	}
	tool["tool_response"] = map[string]any{"stdout": string(out), "stderr": ""}
	if err := a.fire("PostToolUse", tool); err != nil {
		return err
	}
	a.say("user", map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": string(out)}}})
	return nil
}

// readParent finds the record the next one hangs from.
func (a *standIn) readParent() error {
	data, err := os.ReadFile(a.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, line := range strings.Split(string(data), "\n") {
		var r struct {
			UUID string `json:"uuid"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.UUID != "" {
			a.parent = r.UUID
		}
	}
	return err
}

// say adds a record to the transcript.
func (a *standIn) say(kind string, message map[string]any) {
	uuid := fmt.Sprintf("%s-0000-4000-8000-%s", segno.NewID()[:8], segno.NewID()[:12])
	r := map[string]any{"type": kind, "uuid": uuid, "parentUuid": nil, "isSidechain": false, "message": message,
		"sessionId": a.session, "cwd": a.dir, "version": "2.1.197", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}
	if a.parent != "" {
		r["parentUuid"] = a.parent
	}
	if kind == "user" {
		r["promptId"] = a.promptID
	}
	a.parent = uuid
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	a.lines.Write(append(data, '\n'))
}

func (a *standIn) flush() error {
	if err := os.MkdirAll(filepath.Dir(a.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(a.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := a.lines.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

// fire runs a hook the way the agent does: no shell, the event on its input.
func (a *standIn) fire(event string, more map[string]any) error {
	payload := map[string]any{"hook_event_name": event, "session_id": a.session, "transcript_path": a.file,
		"cwd": a.dir, "prompt_id": a.promptID}
	for k, v := range more {
		payload[k] = v
	}
	data, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	cmd := exec.Command("segno", "hook", "claude")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("hook %s: %w", event, err)
	}
	if len(out) > 0 {
		fmt.Printf("%s said %s", event, out)
	}
	return nil
}
