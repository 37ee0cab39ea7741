package proxy

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/dalsegno/segno/internal/acp"
)

// setting is a choice of the client's that a new session does not know: its mode,
// its model, an option.
type setting struct {
	Method string          `json:"method"`
	Key    string          `json:"key"` // what a later choice of the same replaces
	Params json.RawMessage `json:"params"`
}

// set passes on a choice of the client's and remembers it for the sessions that
// follow this one.
func (s *session) set(m acp.Message) {
	s.passOn(m, func(a acp.Message) {
		if a.Err() == nil {
			s.keepSetting(m.MethodName(), m.Text(m.Find(m.Params, "configId")), m.Params.Of(m.Line))
		}
	})
}

func (s *session) keepSetting(method, key string, params json.RawMessage) {
	kept := s.page.Settings[:0:0]
	for _, old := range s.page.Settings {
		if old.Method != method || old.Key != key {
			kept = append(kept, old)
		}
	}
	s.page.Settings = append(kept, setting{Method: method, Key: key, Params: chosen(params)})
	s.remember()
}

// chosen are the params of a choice that say what was chosen. What else a client put
// there is between it and the agent, and may be a secret.
func chosen(params json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return json.RawMessage("{}")
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool {
		return !slices.Contains([]string{"modeId", "modelId", "configId", "value", "type"}, key)
	})
	return acp.Encode(all)
}

// replaySettings makes the client's choices again: a session that is made, resumed
// or forked begins with the agent's own.
func (s *session) replaySettings(ctx context.Context, proc *process) error {
	for _, set := range s.page.Settings {
		var params map[string]json.RawMessage
		if json.Unmarshal(set.Params, &params) != nil {
			continue
		}
		params["sessionId"] = acp.Encode(s.up)
		m, err := s.proxy.agent.call(ctx, proc, set.Method, acp.Encode(params), nil)
		if err != nil && !isAnswer(err) {
			return err
		}
		if err != nil {
			s.proxy.logf("%s: the agent does not take %s again: %v", brief(s.id), set.Method, err)
		}
		if options := m.Find(m.Result, "configOptions").Of(m.Line); err == nil && options != nil {
			s.options = append(json.RawMessage(nil), options...)
		}
	}
	return nil
}

// tellSettings tells the client which of its choices hold, where the agent's answer
// may say otherwise.
func (s *session) tellSettings() {
	for _, set := range s.page.Settings {
		if set.Method == "session/set_mode" {
			var p struct {
				Mode string `json:"modeId"`
			}
			if json.Unmarshal(set.Params, &p) == nil && p.Mode != "" {
				s.say(map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": p.Mode})
			}
		}
	}
	if s.options != nil {
		s.say(map[string]any{"sessionUpdate": "config_option_update", "configOptions": s.options})
	}
	s.options = nil
}
