package export_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The validators below follow published schemas. The schema of ATIF 1.7 is RFC 0001 of Harbor (harbor-framework/harbor,
// rfcs/0001-trajectory-format.md, Apache-2.0), as its Python models check it: unknown fields are refused everywhere
// except in "extra" and "arguments".

type trajectory struct {
	Version   *string        `json:"schema_version"`
	Session   *string        `json:"session_id"`
	ID        *string        `json:"trajectory_id"`
	Agent     *trajAgent     `json:"agent"`
	Steps     []trajStep     `json:"steps"`
	Notes     *string        `json:"notes"`
	Final     *trajFinal     `json:"final_metrics"`
	Continued *string        `json:"continued_trajectory_ref"`
	Extra     map[string]any `json:"extra"`
	Subagents []trajectory   `json:"subagent_trajectories"`
}

type trajAgent struct {
	Name    *string          `json:"name"`
	Version *string          `json:"version"`
	Model   *string          `json:"model_name"`
	Tools   []map[string]any `json:"tool_definitions"`
	Extra   map[string]any   `json:"extra"`
}

type trajFinal struct {
	Prompt     *int           `json:"total_prompt_tokens"`
	Completion *int           `json:"total_completion_tokens"`
	Cached     *int           `json:"total_cached_tokens"`
	Cost       *float64       `json:"total_cost_usd"`
	Steps      *int           `json:"total_steps"`
	Extra      map[string]any `json:"extra"`
}

type trajStep struct {
	ID          int              `json:"step_id"`
	Time        *string          `json:"timestamp"`
	Source      string           `json:"source"`
	Model       *string          `json:"model_name"`
	Effort      any              `json:"reasoning_effort"`
	Message     *string          `json:"message"`
	Reasoning   *string          `json:"reasoning_content"`
	Calls       []trajCall       `json:"tool_calls"`
	Observation *trajObservation `json:"observation"`
	Metrics     map[string]any   `json:"metrics"`
	Copied      *bool            `json:"is_copied_context"`
	Extra       map[string]any   `json:"extra"`
	Inferences  *int             `json:"llm_call_count"`
}

type trajCall struct {
	ID        *string        `json:"tool_call_id"`
	Name      *string        `json:"function_name"`
	Arguments map[string]any `json:"arguments"`
	Extra     map[string]any `json:"extra"`
}

type trajObservation struct {
	Results []struct {
		Call    *string `json:"source_call_id"`
		Content *string `json:"content"`
		Agents  []struct {
			ID      *string        `json:"trajectory_id"`
			Path    *string        `json:"trajectory_path"`
			Session *string        `json:"session_id"`
			Extra   map[string]any `json:"extra"`
		} `json:"subagent_trajectory_ref"`
		Extra map[string]any `json:"extra"`
	} `json:"results"`
}

// validATIF decodes a trajectory. The error describes how it violates the schema.
func validATIF(text string) (trajectory, error) {
	var t trajectory
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, err
	}
	return t, t.check()
}

func (t *trajectory) check() error {
	switch {
	case t.Version == nil || *t.Version != "ATIF-v1.7":
		return fmt.Errorf("schema_version is not ATIF-v1.7")
	case t.Agent == nil || t.Agent.Name == nil || t.Agent.Version == nil:
		return fmt.Errorf("agent needs a name and a version")
	case len(t.Steps) == 0:
		return fmt.Errorf("there is no step")
	}
	ids := map[string]bool{}
	for i := range t.Subagents {
		s := &t.Subagents[i]
		if s.ID == nil || ids[*s.ID] {
			return fmt.Errorf("subagent_trajectories[%d] has no trajectory_id of its own", i)
		}
		ids[*s.ID] = true
		if err := s.check(); err != nil {
			return fmt.Errorf("subagent %s: %w", *s.ID, err)
		}
	}
	for i := range t.Steps {
		if t.Steps[i].ID != i+1 {
			return fmt.Errorf("steps[%d].step_id is %d", i, t.Steps[i].ID)
		}
		if err := t.Steps[i].check(ids); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *trajStep) check(subagents map[string]bool) error {
	if s.Message == nil {
		return fmt.Errorf("no message")
	}
	if s.Time != nil {
		if _, err := time.Parse(time.RFC3339Nano, *s.Time); err != nil {
			return err
		}
	}
	switch s.Source {
	case "agent":
	case "user", "system":
		if s.Model != nil || s.Effort != nil || s.Reasoning != nil || s.Calls != nil || s.Metrics != nil {
			return fmt.Errorf("a field of agents in a step of %s", s.Source)
		}
	default:
		return fmt.Errorf("source %q", s.Source)
	}
	calls := map[string]bool{}
	for _, c := range s.Calls {
		if c.ID == nil || c.Name == nil || c.Arguments == nil {
			return fmt.Errorf("an incomplete call")
		}
		calls[*c.ID] = true
	}
	if s.Observation == nil {
		return nil
	}
	for _, r := range s.Observation.Results {
		if r.Call != nil && !calls[*r.Call] {
			return fmt.Errorf("result of %q, which the step does not call", *r.Call)
		}
		for _, a := range r.Agents {
			if a.ID == nil && a.Path == nil || a.ID != nil && !subagents[*a.ID] {
				return fmt.Errorf("a reference to a subagent leads nowhere")
			}
		}
	}
	return nil
}

// trace is a record of Agent Trace 0.1.0 (cursor/agent-trace, README.md, section 6.1).
type trace struct {
	Version   string          `json:"version"`
	ID        string          `json:"id"`
	Timestamp string          `json:"timestamp"`
	VCS       json.RawMessage `json:"vcs"`
	Tool      struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"tool"`
	Files []struct {
		Path          *string `json:"path"`
		Conversations []struct {
			URL         string `json:"url"`
			Contributor *struct {
				Type  string `json:"type"`
				Model string `json:"model_id"`
			} `json:"contributor"`
			Ranges []struct {
				From int    `json:"start_line"`
				To   int    `json:"end_line"`
				Hash string `json:"content_hash"`
			} `json:"ranges"`
		} `json:"conversations"`
	} `json:"files"`
	Metadata map[string]any `json:"metadata"`
}

var (
	isVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`).MatchString
	isUUID    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString
	isURI     = regexp.MustCompile(`^[a-z]+://[^\s]+$`).MatchString
	isPerson  = regexp.MustCompile(`^(human|ai|mixed|unknown)$`).MatchString
)

// validTrace decodes a record. The error describes how it violates the schema.
func validTrace(line []byte) (r trace, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, err
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Timestamp); err != nil || !isVersion(r.Version) || !isUUID(r.ID) || r.Files == nil || r.VCS != nil {
		return r, fmt.Errorf("version %q, id %q, timestamp %q, %d files", r.Version, r.ID, r.Timestamp, len(r.Files))
	}
	for _, f := range r.Files {
		if f.Path == nil || f.Conversations == nil {
			return r, fmt.Errorf("a file without a path or conversations")
		}
		for _, c := range f.Conversations {
			if !isURI(c.URL) || c.Contributor == nil || !isPerson(c.Contributor.Type) || len(c.Contributor.Model) > 250 || c.Ranges == nil {
				return r, fmt.Errorf("conversation %+v", c)
			}
			for _, x := range c.Ranges {
				if x.From < 1 || x.To < x.From {
					return r, fmt.Errorf("range %+v", x)
				}
			}
		}
	}
	return r, nil
}
