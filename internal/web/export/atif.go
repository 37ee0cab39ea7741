package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
)

// The types of the Agent Trajectory Interchange Format, version 1.7: RFC 0001 of Harbor
// (harbor-framework/harbor, rfcs/0001-trajectory-format.md, Apache-2.0). A reader refuses unknown
// fields, so segno's own data is below "extra".

const atifVersion = "ATIF-v1.7"

type atifAgent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

type atifStep struct {
	ID          int              `json:"step_id"`
	Time        string           `json:"timestamp,omitempty"`
	Source      string           `json:"source"` // system, user, agent
	Model       string           `json:"model_name,omitempty"`
	Message     string           `json:"message"`
	Calls       []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Copied      bool             `json:"is_copied_context,omitempty"`
	Metrics     *atifMetrics     `json:"metrics,omitempty"`
	Extra       *atifExtra       `json:"extra,omitempty"`
}

// atifMetrics is what a turn used, at its last step of the agent.
type atifMetrics struct {
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Cached     *int64   `json:"cached_tokens,omitempty"`
	Cost       *float64 `json:"cost_usd,omitempty"`
}

type atifCall struct {
	ID    string          `json:"tool_call_id"`
	Name  string          `json:"function_name"`
	Input json.RawMessage `json:"arguments"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	Call    string    `json:"source_call_id,omitempty"`
	Content string    `json:"content"`
	Agents  []atifRef `json:"subagent_trajectory_ref,omitempty"`
}

type atifRef struct {
	Trajectory string `json:"trajectory_id"`
}

// atifExtra is the data that segno adds to a step, under the name "segno".
type atifExtra struct {
	Segno atifFacts `json:"segno"`
}

type atifFacts struct {
	Turn       string               `json:"turn"`
	Checkpoint segno.CommitID       `json:"checkpoint"`
	Kind       segno.CheckpointKind `json:"kind"`
	Session    segno.SessionID      `json:"session,omitempty"`
	Undone     bool                 `json:"undone,omitempty"`
	Interrupt  bool                 `json:"interrupted,omitempty"`
	Files      []jsonFile           `json:"files,omitempty"`
	Missing    []string             `json:"missing,omitempty"`
}

// atifWriter writes a trajectory step by step, so that a long thread needs little memory.
type atifWriter struct {
	w     io.Writer
	err   error
	steps int
}

func writeATIF(w io.Writer, s Source) error {
	a := &atifWriter{w: w}
	a.thread(s, string(s.Header.Thread))
	a.print("\n")
	return a.err
}

func (a *atifWriter) print(s string) {
	if a.err == nil {
		_, a.err = io.WriteString(a.w, s)
	}
}

func (a *atifWriter) value(v any) {
	var b bytes.Buffer
	if err := encode(&b, v); err != nil {
		a.err = cmp.Or(a.err, err)
		return
	}
	a.print(string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}

// open writes the fields before the steps.
func (a *atifWriter) open(session, trajectory string, agent atifAgent) {
	a.print(`{"schema_version":"` + atifVersion + `",`)
	if session != "" {
		a.print(`"session_id":`)
		a.value(session)
		a.print(",")
	}
	a.print(`"trajectory_id":`)
	a.value(trajectory)
	a.print(`,"agent":`)
	a.value(agent)
	a.print(`,"steps":[`)
	a.steps = 0
}

func (a *atifWriter) step(s atifStep) {
	if a.steps++; a.steps > 1 {
		a.print(",")
	}
	s.ID = a.steps
	a.print("\n")
	a.value(s)
}

// thread writes the trajectory of a thread. The format has the trajectories of subagents after the
// steps, so thread reads the turns again if there are subagents.
func (a *atifWriter) thread(s Source, id string) {
	agent := atifAgent{Name: cmp.Or(s.Header.Agent, "unknown"), Version: "unknown"}
	for t, err := range s.Turns() {
		if err != nil {
			a.err = err
			return
		}
		if t.Checkpoint.Session != nil && t.Checkpoint.Session.Version != "" {
			agent.Version = t.Checkpoint.Session.Version
		}
		if agent.Model = t.Model; agent.Model != "" || agent.Version != "unknown" {
			break
		}
	}
	a.open(id, id, agent)
	hasSubagents := len(s.Children) > 0
	for t, err := range s.Turns() {
		if err != nil {
			a.err = err
		}
		if a.err != nil {
			return
		}
		hasSubagents = hasSubagents || len(t.Subagents) > 0
		a.turn(t)
	}
	steps := a.steps
	if steps == 0 { // a trajectory needs at least one step
		a.step(atifStep{Source: "system", Message: "The thread has no turns."})
		steps = 1
	}
	a.print("\n]")
	if hasSubagents {
		a.subagents(s)
	}
	a.print(`,"final_metrics":{"total_steps":` + fmt.Sprint(steps) + `},"extra":{"segno":`)
	a.value(atifThread(s))
	a.print("}}")
}

// atifThread returns the data that segno adds to a trajectory.
func atifThread(s Source) map[string]any {
	facts := map[string]any{"thread": s.Header.Thread, "title": s.Header.Title, "version": s.Version}
	if f := s.Header.Fork; f != nil {
		facts["forked_from"] = jsonFork{f.Thread, f.Checkpoint}
	}
	var chain []jsonSession
	for _, x := range s.Header.Chain {
		chain = append(chain, jsonSession{x.Agent, x.Session, stamp(x.Start), x.Reason})
	}
	facts["sessions"] = chain
	return facts
}

// turn writes the steps of a turn. The last step has segno's extra data.
func (a *atifWriter) turn(t *Turn) {
	steps := stepsOf(t)
	for i := range steps {
		steps[i].Copied = t.Inherited
		if i == len(steps)-1 {
			steps[i].Extra = &atifExtra{factsOf(t)}
		}
		a.step(steps[i])
	}
}

func factsOf(t *Turn) atifFacts {
	c := &t.Checkpoint
	f := atifFacts{Turn: t.Name, Checkpoint: c.ID, Kind: c.Kind, Undone: t.Undone, Interrupt: c.Interrupted, Missing: t.Missing, Files: jsonOf(t).Files}
	if c.Session != nil {
		f.Session = c.Session.Session
	}
	return f
}

// stepsOf divides a turn into steps. Each message of the model is one step, if the messages are known.
func stepsOf(t *Turn) []atifStep {
	if !t.IsTurn() {
		message := "segno recorded: " + string(t.Checkpoint.Kind)
		if t.Checkpoint.Kind == segno.CheckpointExternal {
			message = "Files changed outside the turns of the agent."
		}
		if t.Checkpoint.Label != "" {
			message += " (" + t.Checkpoint.Label + ")"
		}
		return []atifStep{{Source: "system", Time: stamp(t.End), Message: message}}
	}
	steps := []atifStep{{Source: "user", Time: stamp(t.Start), Message: withImages(t.Prompt, t.Images)}}
	message := -1
	for _, it := range t.Items {
		if n := len(steps) - 1; it.Author == turns.Agent && it.Message != 0 && it.Message == message {
			steps[n].add(&it, t)
			continue
		}
		message = it.Message
		step := atifStep{Source: "agent", Time: stamp(it.Time), Model: t.Model}
		if it.Author == turns.User {
			step.Source, step.Model = "user", ""
		} else if it.Author == turns.Segno {
			step.Source, step.Model = "system", ""
		}
		step.add(&it, t)
		steps = append(steps, step)
	}
	if u := history.NewUsage(t.Usage, nil); u != nil {
		for i := range slices.Backward(steps) {
			if steps[i].Source == "agent" {
				steps[i].Metrics = &atifMetrics{u.Input, u.Output, u.CacheRead, u.CostUSD}
				break
			}
		}
	}
	return steps
}

// add adds an item of the same message.
func (s *atifStep) add(it *turns.Item, t *Turn) {
	if it.Call == nil {
		if s.Message != "" {
			s.Message += "\n"
		}
		s.Message += withImages(it.Text, it.Images)
		return
	}
	s.addCall(it.Call)
	for _, sub := range t.Subagents {
		if sub.Parent != "" && sub.Parent == it.Call.ID && it.Call.Done {
			last := &s.Observation.Results[len(s.Observation.Results)-1]
			last.Agents = append(last.Agents, atifRef{subagentID(t, sub.ID)})
		}
	}
}

func (s *atifStep) addCall(c *turns.Call) {
	s.Calls = append(s.Calls, atifCall{ID: c.ID, Name: c.Tool, Input: object(c.Input)})
	if !c.Done {
		return
	}
	if s.Observation == nil {
		s.Observation = &atifObservation{}
	}
	s.Observation.Results = append(s.Observation.Results, atifResult{Call: c.ID, Content: withImages(c.Result, c.Images)})
}

// withImages mentions images after a text, because the format cannot contain images.
func withImages(s string, images []turns.Image) string {
	for _, i := range images {
		if s != "" {
			s += "\n"
		}
		s += fmt.Sprintf("[image: %s, %d bytes]", cmp.Or(i.Type, "unknown type"), len(i.Data))
	}
	return text(s)
}

// subagentID returns an id for the trajectory of a subagent that is unique within the thread.
func subagentID(t *Turn, id string) string { return string(t.Checkpoint.ID) + "/" + id }

// subagents writes the trajectories of subagents.
func (a *atifWriter) subagents(s Source) {
	a.print(`,"subagent_trajectories":[`)
	first := true
	next := func() {
		if !first {
			a.print(",")
		}
		first = false
		a.print("\n")
	}
	for t, err := range s.Turns() {
		if err != nil {
			a.err = err
		}
		if a.err != nil {
			return
		}
		for _, sub := range t.Subagents {
			next()
			a.open("", subagentID(t, sub.ID), atifAgent{Name: cmp.Or(t.Checkpoint.Agent, "unknown"), Version: "unknown"})
			for _, c := range sub.Calls {
				step := atifStep{Source: "agent", Time: stamp(c.Start)}
				step.addCall(c)
				a.step(step)
			}
			a.print(`]}`)
		}
	}
	for _, child := range s.Children {
		next()
		a.thread(child, string(child.Header.Thread))
	}
	a.print("\n]")
}
