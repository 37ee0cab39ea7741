package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/gemini"
	"github.com/dalsegno/segno/agents/opencode"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proxy"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/vfs"
)

// runIn runs the agent in a directory, behind the proxy, and sends it one prompt. The proxy records the turn. When runIn
// returns without an error, the store has everything that was recorded.
func (r *acpRun) runIn(ctx context.Context, dir *workspaces.Checkout, text, report string) error {
	s, env, err := r.prepare(ctx, dir)
	if err != nil {
		return err
	}
	fromClient, toProxy, err := os.Pipe()
	if err != nil {
		return segno.NewError(segno.KindIO, "run agent", r.work.Thread, err)
	}
	fromProxy, toClient, err := os.Pipe()
	if err != nil {
		return segno.NewError(segno.KindIO, "run agent", r.work.Thread, errors.Join(err, fromClient.Close(), toProxy.Close()))
	}
	done := make(chan error, 1)
	go func() {
		defer toClient.Close()
		// The end of ctx closes the client's side. The proxy then records the turn as interrupted.
		done <- proxy.Run(context.WithoutCancel(ctx), proxy.Config{Command: r.Command, Env: env, Dir: dir.Files(), Stdin: fromClient, Stdout: toClient,
			Stderr: agentLog{r.ACP}, Place: s.place, NoWatch: true, Store: s,
			Continued: &proxy.Continued{Thread: r.thread, Lease: r.lease, Preface: report}})
	}()
	stop := context.AfterFunc(ctx, func() { toProxy.Close() })
	c := &client{run: r, in: acp.NewWriter(toProxy), out: acp.NewReader(fromProxy)}
	err = c.turn(ctx, dir.Files(), text)
	stop()
	toProxy.Close()
	_, _ = io.Copy(io.Discard, fromProxy) // the proxy may write until it ends
	if runErr := <-done; runErr != nil {
		err = runErr // the client only received the same error from the proxy
	}
	err = errors.Join(err, fromProxy.Close(), fromClient.Close())
	if ctx.Err() != nil || isTurnFailure(err) {
		err = nil // the turn is recorded as interrupted
	}
	if err = errors.Join(err, endProcesses("TMPDIR", dir.Run())); err != nil {
		return err
	}
	tl, err := s.Timeline(segno.WorkspaceRecord{}, nil)
	if err != nil {
		return err
	}
	return dir.CheckRecorded(context.WithoutCancel(ctx), tl.WithLease(r.lease))
}

// agentLog writes to Stderr for the proxies and the agents of all runs, one after the other.
type agentLog struct{ *ACP }

func (l agentLog) Write(data []byte) (int, error) {
	if l.Stderr == nil {
		return len(data), nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.Stderr.Write(data)
}

// turnFailure is the agent's error as the answer to a prompt.
type turnFailure struct{ error }

func isTurnFailure(err error) bool {
	var f turnFailure
	return errors.As(err, &f)
}

// prepare makes the home directory and the environment of the agent, and a store for the proxy.
func (r *acpRun) prepare(ctx context.Context, dir *workspaces.Checkout) (*proxyStore, []string, error) {
	isNew := false
	if _, err := os.Lstat(r.home(dir)); errors.Is(err, os.ErrNotExist) {
		isNew = true
	}
	for _, d := range []string{r.home(dir), dir.Run()} {
		if err := vfs.MkdirAll(vfs.OS, d); err != nil {
			return nil, nil, segno.NewError(segno.KindIO, "make home of agent", d, err)
		}
	}
	if isNew && r.PrepareHome != nil {
		if err := r.PrepareHome(ctx, r.home(dir)); err != nil {
			return nil, nil, fmt.Errorf("prepare home of agent: %w", err)
		}
	}
	env := r.environment(dir)
	place, err := local.FindPlace(func(name string) string { return lookup(env, name) }, dir.StateDir())
	if err != nil {
		return nil, nil, err
	}
	for _, agent := range []string{gemini.Name, opencode.Name} { // see package proxycmd
		delete(place.Homes, agent)
		delete(place.Data, agent)
	}
	store, ok := r.Store.(threadStore)
	if !ok {
		return nil, nil, segno.Errorf(segno.KindInvalid, "run agent", r.work.Thread, "the store does not keep the sessions of agents")
	}
	return &proxyStore{threadStore: store, ctx: context.WithoutCancel(ctx), dir: dir, place: place}, env, nil
}

// home returns the path of the agent's home directory. Each agent of a thread has its own, because it may contain a login.
func (r *acpRun) home(dir *workspaces.Checkout) string {
	return filepath.Join(dir.Home(), segno.DerivedID("home of agent", r.Name)[:8])
}

// environment returns the environment of the agent. A variable that moves the directory of an agent out of the home is left
// out, because the sessions there would be on one machine only.
func (r *acpRun) environment(dir *workspaces.Checkout) []string {
	moving := []string{"HOME", "TMPDIR", "PWD"}
	for _, a := range agents.All() {
		for _, p := range slices.Concat(a.Home, a.Data) {
			moving = append(moving, p.Variable)
		}
	}
	var env []string
	for _, name := range []string{"PATH", "LANG", "TZ"} {
		if value := os.Getenv(name); value != "" && lookup(r.Env, name) == "" {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range r.Env {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(moving, name) {
			env = append(env, v)
		}
	}
	return append(env, "HOME="+r.home(dir), "TMPDIR="+dir.Run(), "PWD="+dir.Files())
}

func lookup(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// client is the proxy's client.
type client struct {
	run  *acpRun
	in   *acp.Writer
	out  *acp.Reader
	sent int // requests
}

// turn opens the session of the thread and sends one prompt.
func (c *client) turn(ctx context.Context, files, text string) error {
	thread := c.run.work.Thread
	requests := []struct {
		method string
		params map[string]any
	}{
		{"initialize", map[string]any{"protocolVersion": acp.Version, "clientCapabilities": map[string]any{}}},
		{"session/resume", map[string]any{"sessionId": thread, "cwd": files, "mcpServers": []any{}}},
		{"session/prompt", map[string]any{"sessionId": thread, "prompt": []any{map[string]string{"type": "text", "text": text}}}},
	}
	for _, r := range requests {
		err := c.call(ctx, r.method, r.params)
		var answer *acp.Error
		if errors.As(err, &answer) && r.method == "session/prompt" {
			return turnFailure{err}
		}
		if err != nil {
			return segno.NewError(segno.KindIO, "run agent", thread, err).WithHint("run the agent's command by hand to see what is wrong")
		}
	}
	return nil
}

// call sends a request, and handles the agent's other messages until the answer arrives.
func (c *client) call(ctx context.Context, method string, params any) error {
	c.sent++
	id := strconv.Itoa(c.sent)
	if err := c.in.Write(acp.Request(id, method, acp.Encode(params))); err != nil {
		return fmt.Errorf("%s: the agent ended: %w", method, err)
	}
	for {
		line, err := c.out.Next()
		if errors.Is(err, acp.ErrTooLong) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: the agent ended without an answer: %w", method, err)
		}
		m, err := acp.Parse(line)
		switch {
		case err != nil: // not a message
		case m.IsResponse():
			if m.CanonicalID() != acp.CanonicalID(id) {
				continue
			}
			if e := m.Err(); e != nil {
				return fmt.Errorf("%s: %w", method, e)
			}
			return nil
		case m.IsRequest():
			if err := c.answer(ctx, m); err != nil {
				return err
			}
		case m.MethodName() == "session/update":
			if err := c.update(ctx, m); err != nil {
				return err
			}
		}
	}
}

// answer answers a request of the agent. If it has to ask the user, it cancels the turn.
func (c *client) answer(ctx context.Context, m acp.Message) error {
	if m.MethodName() != "session/request_permission" {
		return c.in.Write(acp.Failure(m.IDText(), &acp.Error{Code: acp.CodeMethodNotFound, Message: "Method not found"}))
	}
	outcome, isQuestion, err := c.run.permit(ctx, m)
	if err != nil {
		return err // without an answer, the agent does not make the call
	}
	if isQuestion { // before the answer, after which the agent may end the turn as if it were complete
		if err := c.in.Write(acp.Notification("session/cancel", acp.Encode(map[string]any{"sessionId": c.run.work.Thread}))); err != nil {
			return err
		}
	}
	return c.in.Write(acp.Result(m.IDText(), acp.Encode(map[string]any{"outcome": outcome})))
}

// update records the calls that the agent announces.
func (c *client) update(ctx context.Context, m acp.Message) error {
	update := m.Find(m.Params, "update")
	kind := m.Text(m.Find(update, "sessionUpdate"))
	if kind != "tool_call" && kind != "tool_call_update" {
		return nil
	}
	var announced description
	_ = m.Decode(update, &announced) // what is malformed is not known
	status := m.Text(m.Find(update, "status"))
	return c.run.attempts.add(ctx, callUpdate{id: m.Text(m.Find(update, "toolCallId")), title: c.run.neutral(announced.Title),
		announced: announced, isNew: kind == "tool_call", isEnd: status == "completed" || status == "failed",
		isLost: m.Text(m.Find(update, "_meta", "segno", "outcome")) == "unknown"}) // see session.failOpenCalls of the proxy
}
