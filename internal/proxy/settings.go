package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// setting is a mode, a model or an option that the client chose. A new session of the agent
// begins without it.
type setting struct {
	Method string          `json:"method"`
	Key    string          `json:"key"` // a later choice with the same method and key replaces it
	Params json.RawMessage `json:"params"`
}

// set forwards a choice of the client and records it for later sessions of the agent.
func (s *session) set(m acp.Message) error {
	onAnswer := func(a acp.Message) {
		if a.Err() == nil {
			s.recordSetting(m.MethodName(), m.Text(m.Find(m.Params, "configId")), m.Params.Of(m.Line))
		}
	}
	return s.forward(m, onAnswer, false)
}

// recordSetting records a choice. It stores only the params that name the choice: others are
// between the client and the agent, and may be secret.
func (s *session) recordSetting(method, key string, params json.RawMessage) {
	all := members(params)
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool {
		return !slices.Contains([]string{"modeId", "modelId", "configId", "value", "type"}, key)
	})
	others := slices.DeleteFunc(slices.Clone(s.record.Settings), func(old setting) bool { return old.Method == method && old.Key == key })
	s.record.Settings = append(others, setting{Method: method, Key: key, Params: acp.Encode(all)})
	s.touch()
}

// replaySettings repeats the client's choices in a session that begins with the agent's
// defaults.
func (s *session) replaySettings(ctx context.Context, proc *process) error {
	for _, set := range s.record.Settings {
		params := members(set.Params)
		params["sessionId"] = acp.Encode(s.up)
		m, err := s.proxy.agent.call(ctx, proc, set.Method, acp.Encode(params), nil)
		if err != nil && !isAnswer(err) {
			return err
		}
		if err != nil {
			s.logf("the agent refuses to repeat %s: %v", set.Method, err)
		} else if options := m.Find(m.Result, "configOptions").Of(m.Line); options != nil {
			s.options = bytes.Clone(options)
		}
	}
	return nil
}

// showSettings tells the client which of its choices are in effect. The agent's answer to the
// opening of the session may have others.
func (s *session) showSettings() {
	for _, set := range s.record.Settings {
		if mode := members(set.Params)["modeId"]; set.Method == "session/set_mode" && mode != nil {
			s.notify(map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": mode})
		}
	}
	if s.options != nil {
		s.notify(map[string]any{"sessionUpdate": "config_option_update", "configOptions": s.options})
	}
	s.options = nil
}
