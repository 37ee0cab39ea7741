package worldagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/failure"
)

const (
	cancelTime = 2 * time.Second // for a cancelled turn to end
	leaveTime  = 5 * time.Second // for the agent to end after its input was closed: it may still write its session
)

type acpTurn struct {
	Config
	record *record
	cmd    *exec.Cmd
	in     *acp.Writer
	stdin  io.Closer
	out    *acp.Reader
	sent   int // requests

	agent struct {
		name, version string
		canResume     bool // session/resume
		canLoad       bool // session/load
	}
	session segno.SessionID
	isFresh bool // the session was opened for this turn
	turnOutput
}

// TurnACP runs one turn of an agent that speaks the Agent Client Protocol, and returns the agent's last words. It
// starts command with the environment of this process, resumes or loads the session, and sends the prompt. If the
// program no longer has the session, TurnACP makes a new one, whose prompt begins with a preamble about the earlier
// turns. known is the session that the caller found in the home of the agent, for a conversation without a record.
// TurnACP grants all requests for permission. If ctx ends, it cancels the turn.
func TurnACP(ctx context.Context, c Config, known segno.SessionID, command []string) (words string, err error) {
	r, err := openRecord(ctx, c.Conversation, c.ID)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	t := &acpTurn{Config: c, record: r}
	if r.session != "" {
		known = r.session
	}
	if err := t.start(ctx, command); err != nil {
		return "", err
	}
	err = t.run(ctx, known)
	t.leave(ctx)
	return t.text.String(), err
}

// start starts the program, in the process group of the turn.
func (t *acpTurn) start(ctx context.Context, command []string) error {
	t.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	t.cmd.Dir, t.cmd.Stderr = t.Dir, os.Stderr
	stdin, err := t.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := t.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := t.cmd.Start(); err != nil {
		return segno.NewError(segno.KindInvalid, "start agent", command[0], err).WithHint("check the command of the agent in the experiment")
	}
	t.in, t.stdin, t.out = acp.NewWriter(stdin), stdin, acp.NewReader(stdout)
	return nil
}

// leave closes the program's input, and kills the program if it does not end in time.
func (t *acpTurn) leave(ctx context.Context) {
	t.stdin.Close()
	gone := make(chan struct{})
	go func() {
		for {
			if _, err := t.out.Next(); err != nil && !errors.Is(err, acp.ErrTooLong) {
				break
			}
		}
		_ = t.cmd.Wait() // the answer to the prompt decides the outcome, not the exit status
		close(gone)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	select {
	case <-gone:
		return
	case <-ctx.Done():
	}
	_ = t.cmd.Process.Signal(syscall.SIGKILL) // the end of the process group ends its children
}

// run opens the session and sends the prompt.
func (t *acpTurn) run(ctx context.Context, known segno.SessionID) error {
	if err := t.initialize(ctx); err != nil {
		return err
	}
	prompt, err := t.open(ctx, known)
	if err != nil {
		return err
	}
	if err := t.record.begin(ctx, t.Prompt, t.session); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = t.in.Write(acp.Notification("session/cancel", encode(map[string]any{"sessionId": t.session}))) // it may have ended
		time.AfterFunc(cancelTime, func() { _ = t.cmd.Process.Kill() })                                    // if no answer arrives
	})
	defer stop()
	answer, err := t.call(ctx, "session/prompt", map[string]any{"sessionId": t.session, "prompt": []any{map[string]string{"type": "text", "text": prompt}}})
	if recordErr := t.record.end(ctx, t.text.String()); recordErr != nil {
		return errors.Join(err, recordErr)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.outcome(answer, err)
}

func (t *acpTurn) initialize(ctx context.Context) error {
	m, err := t.call(ctx, "initialize", map[string]any{"protocolVersion": acp.Version, "clientCapabilities": map[string]any{}})
	if err != nil {
		return segno.NewError(segno.KindIO, "start agent", t.cmd.Path, err)
	}
	var answer struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load     bool                       `json:"loadSession"`
			Sessions map[string]json.RawMessage `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
		Info struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"agentInfo"`
	}
	if err := m.Decode(m.Result, &answer); err != nil {
		return segno.NewError(segno.KindInvalid, "start agent", t.cmd.Path, err)
	}
	if answer.Version != acp.Version {
		return segno.Errorf(segno.KindInvalid, "start agent", t.cmd.Path, "it speaks version %d of the protocol, not %d", answer.Version, acp.Version)
	}
	resume := answer.Capabilities.Sessions["resume"]
	t.agent.canResume, t.agent.canLoad = len(resume) > 0 && string(resume) != "null", answer.Capabilities.Load
	t.agent.name, t.agent.version = answer.Info.Name, answer.Info.Version
	return nil
}

// open opens the session and returns the text of the prompt. In a session that replaces a lost one, the prompt begins
// with a preamble.
func (t *acpTurn) open(ctx context.Context, known segno.SessionID) (prompt string, err error) {
	where := map[string]any{"cwd": t.Dir, "mcpServers": []any{}, "sessionId": known}
	for _, try := range []struct {
		method string
		can    bool
	}{{"session/resume", t.agent.canResume}, {"session/load", t.agent.canLoad}} {
		if known == "" || !try.can {
			continue
		}
		m, err := t.call(ctx, try.method, where)
		if err == nil {
			t.session, t.isFresh = known, true
			t.turnOutput = turnOutput{} // the output so far was a replay
			return t.Prompt, t.stopAsking(ctx, m)
		}
		if !isAnswer(err) {
			return "", err
		}
	}
	delete(where, "sessionId")
	m, err := t.call(ctx, "session/new", where)
	if err != nil {
		return "", segno.NewError(segno.KindIO, "open session", t.cmd.Path, err)
	}
	t.session, t.isFresh, t.turnOutput = segno.SessionID(m.Text(m.Find(m.Result, "sessionId"))), true, turnOutput{}
	if t.session == "" {
		return "", segno.Errorf(segno.KindIO, "open session", t.cmd.Path, "the agent gave no session")
	}
	for _, p := range []string{t.record.preamble(), strings.TrimSpace(t.System)} { // the last one comes first
		if p != "" {
			prompt = p + "\n\n" + prompt
		}
	}
	return prompt + t.Prompt, t.stopAsking(ctx, m)
}

// freeModes are the modes in which agents act without asking, best first. In the last one, they ask for permission and
// get it. In any other mode, an agent may ask a model instead.
func freeModes() []string {
	return []string{"bypassPermissions", "agent-full-access", "full-access", "yolo", "default"}
}

// stopAsking sets the first of the freeModes that the session has. m is the answer that opened the session.
func (t *acpTurn) stopAsking(ctx context.Context, m acp.Message) error {
	var opened struct {
		Modes struct {
			Current   string `json:"currentModeId"`
			Available []struct {
				ID string `json:"id"`
			} `json:"availableModes"`
		} `json:"modes"`
	}
	_ = m.Decode(m.Result, &opened) // the result may be null
	for _, mode := range freeModes() {
		for _, a := range opened.Modes.Available {
			switch {
			case a.ID != mode:
			case mode == opened.Modes.Current:
				return nil
			default:
				_, err := t.call(ctx, "session/set_mode", map[string]any{"sessionId": t.session, "modeId": mode})
				if err != nil && !isAnswer(err) {
					return err
				}
				return nil // if the agent refuses, its current mode may be good enough
			}
		}
	}
	return nil
}

// isAnswer reports whether an error is an answer of the agent.
func isAnswer(err error) bool {
	var answer *acp.Error
	return errors.As(err, &answer)
}

// call sends a request, and handles the agent's other messages until the answer arrives.
func (t *acpTurn) call(ctx context.Context, method string, params any) (acp.Message, error) {
	t.sent++
	id := fmt.Sprint(t.sent)
	if err := t.in.Write(acp.Request(id, method, encode(params))); err != nil {
		return acp.Message{}, fmt.Errorf("%s: the agent ended: %w", method, err)
	}
	for {
		line, err := t.out.Next()
		if errors.Is(err, acp.ErrTooLong) {
			continue
		}
		if err != nil {
			return acp.Message{}, fmt.Errorf("%s: the agent ended without an answer: %w", method, err)
		}
		m, err := acp.Parse(line)
		switch {
		case err != nil: // not a message: some agents write logs
		case m.IsResponse() && m.CanonicalID() == acp.CanonicalID(id):
			if e := m.Err(); e != nil {
				return m, fmt.Errorf("%s: %w", method, e)
			}
			return m, nil
		case m.IsRequest():
			err = t.in.Write(t.answer(m))
			if err != nil {
				return acp.Message{}, fmt.Errorf("%s: the agent ended: %w", method, err)
			}
		case m.MethodName() == "session/update":
			if err := t.update(ctx, m); err != nil {
				return acp.Message{}, err
			}
		}
	}
}

// answer returns the answer to a request of the agent. It grants permissions, and refuses all other requests.
func (t *acpTurn) answer(m acp.Message) []byte {
	if m.MethodName() != "session/request_permission" {
		return acp.Failure(m.IDText(), &acp.Error{Code: acp.CodeMethodNotFound, Message: "Method not found"})
	}
	var options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	}
	outcome := map[string]string{"outcome": "cancelled"}
	if m.Decode(m.Find(m.Params, "options"), &options) == nil {
		for _, kind := range []string{"allow_once", "allow_always"} { // the last one that the agent offers wins
			for _, o := range options {
				if o.Kind == kind {
					outcome = map[string]string{"outcome": "selected", "optionId": o.ID}
				}
			}
		}
	}
	return acp.Result(m.IDText(), encode(map[string]any{"outcome": outcome}))
}

// outcome returns the error of a failed turn.
func (t *acpTurn) outcome(m acp.Message, err error) error {
	o := failure.Outcome{Agent: t.agent.name, Version: t.agent.version, Method: "session/prompt", OutputTokens: -1,
		Text: t.text.String(), Tools: len(t.calls), Updates: t.updates, SystemError: t.systemError, Fresh: t.isFresh}
	if !errors.As(err, &o.Err) {
		o.Exited = err != nil
	}
	if err == nil {
		o.Stop = m.Text(m.Find(m.Result, "stopReason"))
		var usage struct {
			Output *int `json:"outputTokens"`
		}
		if m.Decode(m.Find(m.Result, "usage"), &usage) == nil && usage.Output != nil {
			o.OutputTokens = *usage.Output
		}
	}
	if meaning := failure.Classify(o); meaning.Turn != failure.Fine {
		return segno.Errorf(segno.KindIO, "run agent", t.agent.name, "%s", meaning.Message)
	}
	return nil
}
