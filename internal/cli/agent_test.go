package cli_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// agentStandIn plays one turn of Claude Code: it writes a transcript in the format of Claude Code
// 2.1, calls tools, and fires the hooks for all of this.
//
//	agent [flags] SESSION PROMPT [CALL…]
//
// A CALL is a shell command, which must succeed. '! COMMAND' must fail. 'Write PATH TEXT' is a call of the tool Write.
// If the prompt is "", the stand-in only follows the flags. The prompt '@FILE' is the content of the file. The stand-in
// prints the output of hooks, which must be JSON.
type agentStandIn struct {
	transcriptWriter
	events

	prompt string
	calls  []string
	source string // -start
	fork   string // -fork
	rewind int    // -rewind
	stop   string // -stop
	end    string // -end
	ready  string // -ready
	resume string // -go
	wait   bool   // -hang
	small  bool   // -compact
	helper bool   // -sub
}

func agentMain() {
	if err := agentRun(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func agentRun(args []string) error {
	a := &agentStandIn{}
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.StringVar(&a.source, "start", "", "fire SessionStart with this `SOURCE` first")
	f.StringVar(&a.fork, "fork", "", "--fork-session: begin as a copy of `SESSION`")
	f.IntVar(&a.rewind, "rewind", 0, "/rewind: the prompt takes the place of the `N`th")
	f.StringVar(&a.stop, "stop", "once", "once, none, twice, late (the last line after the event) or failure")
	f.StringVar(&a.end, "end", "", "fire SessionEnd with this `REASON` at last")
	f.StringVar(&a.ready, "ready", "", "write to this `FIFO` after the calls")
	f.StringVar(&a.resume, "go", "", "then wait until this `FIFO` is written to")
	f.BoolVar(&a.wait, "hang", false, "then wait for ever")
	f.BoolVar(&a.small, "compact", false, "/compact first")
	f.BoolVar(&a.helper, "sub", false, "the calls are a subagent's")
	f.BoolVar(&a.anonymous, "noid", false, "events carry no prompt_id")
	f.BoolVar(&a.installed, "installed", false, "run the hooks that the settings name")
	f.BoolVar(&a.double, "double", false, "each event is delivered twice")
	f.StringVar(&a.cwd, "cwd", "", "the `DIR` that the agent has gone to")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() < 2 {
		return errors.New("usage: agent [flags] SESSION PROMPT [CALL…]")
	}
	if err := a.openSession(f.Arg(0)); err != nil {
		return err
	}
	a.prompt, a.calls = f.Arg(1), f.Args()[2:]
	if file, ok := strings.CutPrefix(a.prompt, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		a.prompt = strings.TrimSuffix(string(data), "\n")
	}
	return a.play()
}

// openSession finds the file of the session and the parent of its next record.
func (a *agentStandIn) openSession(session string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if a.cwd == "" {
		a.cwd = dir
	}
	a.events.dir = dir
	a.open(os.Getenv("CLAUDE_CONFIG_DIR"), dir, session)
	a.session, a.promptID = session, segno.NewID()
	a.path = a.file
	return a.readParent(a.rewind)
}

func (a *agentStandIn) play() error {
	if err := a.begin(); err != nil || a.prompt == "" {
		return err
	}
	if err := a.fire("UserPromptSubmit", map[string]any{"prompt": a.prompt}); err != nil {
		return err
	}
	if a.fork != "" {
		if err := a.copyFrom(a.fork); err != nil {
			return err
		}
	}
	a.user(a.prompt)
	if err := a.flush(); err != nil {
		return err
	}
	for _, call := range a.calls {
		if err := a.call(call); err != nil {
			return err
		}
	}
	if err := a.pause(); err != nil {
		return err
	}
	if err := a.finish(); err != nil {
		return err
	}
	return a.exitAgent()
}

func (a *agentStandIn) begin() error {
	if a.source != "" {
		session := a.session
		if a.fork != "" {
			a.session = a.fork // the agent also uses the new id in a fork's first event
		}
		err := a.fire("SessionStart", map[string]any{"source": a.source})
		a.session = session
		if err != nil {
			return err
		}
	}
	if a.small {
		return a.compact()
	}
	if a.prompt == "" {
		return a.exitAgent()
	}
	return nil
}

// compact plays /compact.
func (a *agentStandIn) compact() error {
	a.boundary()
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.fire("PostCompact", map[string]any{"trigger": "manual", "compact_summary": "so far"}); err != nil {
		return err
	}
	return a.fire("SessionStart", map[string]any{"source": "compact"})
}

// call runs one tool and fires the events before and after it.
func (a *agentStandIn) call(call string) error {
	id := "toolu_" + segno.NewID()
	tool := map[string]any{"tool_use_id": id}
	if a.helper {
		tool["agent_id"], tool["agent_type"] = "helper1", "general-purpose"
	}
	path, text, isWrite := strings.Cut(strings.TrimPrefix(call, "Write "), " ")
	var run func() (string, error)
	if isWrite = isWrite && strings.HasPrefix(call, "Write "); isWrite {
		path = filepath.Join(a.cwd, path)
		tool["tool_name"], tool["tool_input"] = "Write", map[string]string{"file_path": path, "content": text}
		run = func() (string, error) { return "written", os.WriteFile(path, []byte(text+"\n"), 0o644) }
	} else {
		command := strings.TrimPrefix(call, "! ")
		tool["tool_name"], tool["tool_input"] = "Bash", map[string]string{"command": command}
		run = func() (string, error) { return a.shell(command) }
	}
	a.toolUse(id, tool["tool_name"], tool["tool_input"])
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.fire("PreToolUse", tool); err != nil {
		return err
	}
	out, err := run()
	if fails := strings.HasPrefix(call, "! "); fails != (err != nil) {
		return fmt.Errorf("%s: %v: %s", call, err, out)
	}
	event := "PostToolUse"
	tool["duration_ms"] = 7
	if err != nil {
		event, tool["error"], tool["is_interrupt"] = "PostToolUseFailure", err.Error(), false
	} else {
		tool["tool_response"] = map[string]any{"stdout": out, "stderr": ""}
	}
	if err := a.fire(event, tool); err != nil {
		return err
	}
	a.toolResult(id, out, err != nil)
	if a.helper {
		return a.fire("SubagentStop", map[string]any{"agent_id": "helper1", "agent_transcript_path": ""})
	}
	return nil
}

func (a *agentStandIn) shell(command string) (string, error) {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = a.cwd
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("Exit code %d\n%s", exit.ExitCode(), out)
	}
	return string(out), err
}

// pause signals the script in the middle of the turn, and waits for it.
func (a *agentStandIn) pause() error {
	if a.ready != "" {
		if err := os.WriteFile(a.ready, []byte("ready\n"), 0); err != nil {
			return err
		}
	}
	if a.resume != "" {
		if _, err := os.ReadFile(a.resume); err != nil {
			return err
		}
	}
	if a.wait {
		r, _, err := os.Pipe()
		if err != nil {
			return err
		}
		_, err = r.Read(make([]byte, 1))
		return err
	}
	return nil
}

// finish ends the turn in the way that -stop names.
func (a *agentStandIn) finish() error {
	answer := "answer to " + a.prompt
	last := map[string]any{"last_assistant_message": answer, "stop_hook_active": false}
	switch a.stop {
	case "none":
		return a.flush()
	case "failure":
		a.apiError("rate_limit")
		if err := a.flush(); err != nil {
			return err
		}
		return a.fire("StopFailure", map[string]any{"error": "rate_limit", "error_details": "429"})
	case "late":
		a.assistant(answer)
		return a.fireThen("Stop", last, a.flush)
	}
	a.assistant(answer)
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.fire("Stop", last); err != nil || a.stop != "twice" {
		return err
	}
	// another hook made the agent continue: more calls, and a second Stop
	if err := a.call("echo more > more"); err != nil {
		return err
	}
	a.assistant(answer + ", and more")
	if err := a.flush(); err != nil {
		return err
	}
	return a.fire("Stop", map[string]any{"last_assistant_message": answer + ", and more", "stop_hook_active": true})
}

func (a *agentStandIn) exitAgent() error {
	if a.end == "" {
		return nil
	}
	return a.fire("SessionEnd", map[string]any{"reason": a.end})
}
