package cli

import (
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// readSteps takes the calls and the words of a Go agent's turn: they are in the
// commits of its steps, as messages.
func (s *checkpointDetails) readSteps(ctx context.Context, d *openWorkspace, c *segno.Checkpoint) error {
	line, err := d.store.Load(ctx, c.ID, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i := range line.Commits {
		for _, e := range line.Commits[i].Entries {
			if e.Kind != segno.EntryMessage || e.Turn != c.Turn {
				continue
			}
			var m agent.Message
			if err := json.Unmarshal(e.Body, &m); err != nil {
				return segno.NewError(segno.KindCorrupt, "read message", string(line.Commits[i].ID), err)
			}
			if err := s.step(&m, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes one message; at has the places of the calls.
func (s *checkpointDetails) step(m *agent.Message, at map[string]int) error {
	if m.Role == agent.Assistant {
		s.Message = m.Text()
	}
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			at[p.Call.ID] = len(s.Calls)
			s.Calls = append(s.Calls, call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Args})
		case p.Result != nil:
			i, ok := at[p.Result.Call]
			if !ok {
				continue
			}
			body, err := segno.Encode(p.Result)
			if err != nil {
				return err
			}
			if s.Calls[i].Done, s.Calls[i].Result = true, body; p.Result.Error {
				s.Calls[i].Status = "failed"
			}
		}
	}
	return nil
}
