package acptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// open has the params of the methods that open a session.
type open struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	Meta      struct {
		JetBrains struct {
			Air struct {
				Fork struct {
					MessageID string `json:"messageId"`
				} `json:"fork"`
			} `json:"air"`
		} `json:"jetbrains"`
	} `json:"_meta"`
}

func (a *agent) request(ctx context.Context, m acp.Message) {
	var p open
	if err := m.Decode(m.Params, &p); err != nil {
		a.answer(m.IDText(), nil, &acp.Error{Code: acp.CodeInvalidParams, Message: "Invalid params: " + err.Error()})
		return
	}
	if m.MethodName() == "session/prompt" {
		a.startTurn(ctx, m)
		return
	}
	result, err := a.serve(m, p)
	a.answer(m.IDText(), result, a.wire(err))
	if s, ok := result.(sessionResult); ok && err == nil {
		a.announce(s.session)
	}
}

// wire converts an error to the error of an answer.
func (a *agent) wire(err error) *acp.Error {
	if err == nil {
		return nil
	}
	if e := new(acp.Error); errors.As(err, &e) {
		return e
	}
	return &acp.Error{Code: acp.CodeInternal, Message: "Internal error", Data: encode(map[string]string{"details": err.Error()})}
}

func (a *agent) serve(m acp.Message, p open) (any, error) {
	switch method := m.MethodName(); {
	case method == "initialize":
		return a.initialize(), nil
	case method == "authenticate":
		a.authed = true
		return struct{}{}, nil
	case a.Auth && !a.authed:
		return nil, &acp.Error{Code: acp.CodeAuthRequired, Message: "Authentication required"}
	case method == "session/new":
		return a.newSession(p)
	case method == "session/load" && a.Load, method == "session/resume" && a.Resume:
		return a.reopen(method, p)
	case method == "session/fork" && a.Fork:
		return a.fork(p)
	case method == "session/list" && a.List:
		list, err := a.listSessions(p.Cwd)
		if err != nil || a.ListPage == 0 {
			return map[string]any{"sessions": list}, err
		}
		return a.page(list, m.Text(m.Find(m.Params, "cursor")))
	case method == "session/close" && a.Close, method == "session/delete" && a.Delete:
		return a.closeSession(method, p)
	case method == "session/set_mode", method == "session/set_config_option":
		return a.configure(method, m)
	case len(method) > 0 && method[0] == '_':
		return encode(map[string]string{"line": string(m.Line)}), nil
	default:
		return nil, &acp.Error{Code: acp.CodeMethodNotFound, Message: `"Method not found": ` + method}
	}
}

// page returns the part of a list after a cursor, which is a number of sessions.
func (a *agent) page(list []listed, cursor string) (any, error) {
	from := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n > len(list) {
			return nil, &acp.Error{Code: acp.CodeInvalidParams, Message: "Invalid params: no such cursor"}
		}
		from = n
	}
	to := min(from+a.ListPage, len(list))
	result := map[string]any{"sessions": list[from:to]}
	if to < len(list) {
		result["nextCursor"] = strconv.Itoa(to)
	}
	return result, nil
}

func (a *agent) initialize() any {
	r := map[string]any{"protocolVersion": max(a.Protocol, acp.Version), "agentCapabilities": a.capabilities(), "authMethods": []any{}}
	if a.Name != "" {
		r["agentInfo"] = map[string]string{"name": a.Name, "version": a.Version}
	}
	if a.Auth {
		r["authMethods"] = []any{map[string]string{"id": "key", "name": "A key"}}
	}
	return r
}

// sessionResult is the result of a method that opened a session.
type sessionResult struct {
	session *session
	null    bool
	named   bool // the result has its id
}

func (o sessionResult) MarshalJSON() ([]byte, error) {
	if o.null {
		return []byte("null"), nil
	}
	r := map[string]any{"modes": map[string]any{"currentModeId": o.session.modeID(), "availableModes": []map[string]string{
		{"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}, {"id": "bypass", "name": "Bypass"}}}}
	if o.named {
		r["sessionId"] = o.session.id
	}
	return encode(r), nil
}

// sessionID returns the id of a new session.
func (a *agent) sessionID() string {
	if !a.Numbered {
		return newID()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbers++
	return fmt.Sprint("session-", a.numbers)
}

func (a *agent) newSession(p open) (any, error) {
	s := &session{id: a.sessionID(), cwd: p.Cwd, lazy: a.Lazy}
	s.file, s.form = a.newFile(s), a.form()
	if err := s.add(record{Type: "open", ID: s.id, Cwd: p.Cwd}); err != nil {
		return nil, err
	}
	a.keep(s)
	return sessionResult{session: s, named: true}, nil
}

// find returns a session from memory or from disk.
func (a *agent) find(method string, p open) (*session, error) {
	if s := a.session(p.SessionID); s != nil {
		return s, nil
	}
	s, err := a.readSession(p.SessionID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && a.Keyed && !a.ownsSession(s, p.Cwd) {
		return nil, a.missing(method, p.SessionID)
	}
	return s, err
}

func (a *agent) reopen(method string, p open) (any, error) {
	s, err := a.find(method, p)
	if err != nil {
		return nil, err
	}
	s.cwd = p.Cwd
	a.keep(s)
	if method == "session/load" {
		if err := a.awaitLoad(); err != nil {
			return nil, err
		}
		a.replay(s)
	}
	return sessionResult{session: s, null: a.NullResults}, nil
}

// awaitLoad waits for the file LoadWait.
func (a *agent) awaitLoad() error {
	if a.LoadWait == "" {
		return nil
	}
	if err := os.WriteFile(a.LoadWait+".waits", nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(a.LoadWait); err == nil {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// replay sends the messages of a session.
func (a *agent) replay(s *session) {
	for _, r := range s.all() {
		switch r.Type {
		case "user":
			a.update(s, chunk("user_message_chunk", r.Text, r.ID))
		case "agent":
			a.update(s, chunk("agent_message_chunk", r.Text, r.ID))
		case "call":
			a.update(s, map[string]any{"sessionUpdate": "tool_call", "toolCallId": r.ID, "title": r.Text, "kind": "execute", "status": "pending"})
		case "result":
			a.update(s, map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": r.ID, "status": "completed", "content": toolText(r.Text)})
		}
	}
}

func chunk(kind, text, id string) map[string]any {
	u := map[string]any{"sessionUpdate": kind, "content": map[string]string{"type": "text", "text": text}}
	if id != "" {
		u["messageId"] = id
	}
	return u
}

func (a *agent) fork(p open) (any, error) {
	from, err := a.find("session/fork", p)
	if err != nil {
		return nil, err
	}
	records := from.all()
	if at := p.Meta.JetBrains.Air.Fork.MessageID; a.ForkAt && at != "" {
		end := -1
		for i, r := range records {
			if r.ID == at {
				end = i + 1
			}
		}
		if end < 0 {
			return nil, &acp.Error{Code: acp.CodeInvalidParams, Data: encode(map[string]string{"messageId": at}),
				Message: "Invalid params: Fork point message " + at + " was not found in session " + p.SessionID}
		}
		for a.ForkTurns && end < len(records) && records[end].Type != "user" {
			end++
		}
		records = records[:end]
	}
	s := &session{id: a.sessionID(), cwd: p.Cwd}
	s.file, s.form = a.newFile(s), a.form()
	s.records = append([]record{{Type: "open", ID: s.id, Cwd: p.Cwd}}, records[1:]...)
	if err := s.write(); err != nil {
		return nil, err
	}
	a.keep(s)
	if a.ForkReplay {
		a.replay(s)
	}
	return sessionResult{session: s, named: true}, nil
}

func (a *agent) closeSession(method string, p open) (any, error) {
	s, err := a.find(method, p)
	if err != nil {
		return nil, err
	}
	s.stop()
	a.forget(s)
	if method == "session/delete" {
		if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return struct{}{}, nil
}

func (a *agent) configure(method string, m acp.Message) (any, error) {
	s := a.session(m.SessionID())
	if s == nil {
		return nil, a.missing("session/prompt", m.SessionID())
	}
	if method == "session/set_mode" {
		mode := m.Text(m.Find(m.Params, "modeId"))
		s.set("mode", encode(mode))
		a.update(s, map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": mode})
		return struct{}{}, nil
	}
	s.set("option "+m.Text(m.Find(m.Params, "configId")), json.RawMessage(m.Find(m.Params, "value").Of(m.Line)))
	return map[string]any{"configOptions": []any{}}, nil
}

// announce sends the available commands after the answer that opened a session.
func (a *agent) announce(s *session) {
	if len(a.Commands) == 0 {
		return
	}
	list := []any{}
	for _, name := range a.Commands {
		list = append(list, map[string]string{"name": name, "description": name})
	}
	a.update(s, map[string]any{"sessionUpdate": "available_commands_update", "availableCommands": list})
}
