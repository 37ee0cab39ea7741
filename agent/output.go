package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/dalsegno/segno"
)

// answerName is the tool a structured answer is given through: every model that
// can call tools can give one.
const answerName = "final_answer"

func answerTool(schema json.RawMessage) ToolSpec {
	return ToolSpec{Name: answerName, Description: "Give your final answer, once everything else is done. It ends the turn.", Schema: schema}
}

// outputKey is where the state has the schema of the open turn's answer: who goes on
// with the turn need not know it.
const outputKey = ".output"

func (r *run) keepOutput() error {
	if r.in.Output == nil {
		r.values.delete(outputKey)
		return nil
	}
	return r.values.set(outputKey, r.in.Output)
}

// findOutput finds the schema of the turn that the run goes on with.
func (r *run) findOutput() error {
	if r.in.Output != nil || r.in.Prompt != "" || len(r.in.Parts) > 0 {
		return nil
	}
	_, err := r.values.Get(outputKey, &r.in.Output)
	return err
}

// answered returns the structured answer of the newest message, once it was taken,
// or nil.
func (r *run) answered() json.RawMessage {
	if r.in.Output == nil {
		return nil
	}
	for i := len(r.msgs) - 1; i >= 0; i-- {
		if r.msgs[i].Role != Assistant {
			continue
		}
		for _, c := range r.msgs[i].Calls() {
			if c.Name == answerName && outputSchema(r.in.Output).wrong(c.Args) == "" {
				return c.Args
			}
		}
		return nil
	}
	return nil
}

// noteAnswer drafts the structured answer, and what was said beside it, as notes that
// the done event is told from.
func (r *run) noteAnswer() error {
	answer := r.answered()
	if answer == nil {
		return nil
	}
	if said := r.lastWords(); said != "" {
		body, err := segno.Encode(said)
		if err != nil {
			return fmt.Errorf("record answer: %w", err)
		}
		if err := r.draft(segno.Entry{Kind: segno.EntryNote, Name: noteSaid, Body: body}); err != nil {
			return err
		}
	}
	return r.draft(segno.Entry{Kind: segno.EntryNote, Name: noteAnswer, Body: answer})
}

// nudge reminds a model that ended its turn without the structured answer, a few
// times. What it said instead is kept.
func (r *run) nudge(ctx context.Context) error {
	const most = 3
	if r.nudges++; r.nudges > most {
		r.open = false
		if err := r.commit(ctx, &segno.Checkpoint{Kind: segno.CheckpointTurn, Step: r.state.Step, Prompt: r.prompt, Interrupted: true}); err != nil {
			return err
		}
		return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "the model gives no structured answer").WithHint("simplify the schema, or use another model")
	}
	if err := r.say(Message{Role: User, Parts: []Part{{Text: "Give your answer with the tool " + answerName + "."}}}); err != nil {
		return err
	}
	return r.commit(ctx, r.stepEnd())
}

// schema checks arguments.
type schema struct{ *jsonschema.Resolved }

// checkOutput refuses a schema that no answer could be checked against.
func checkOutput(text json.RawMessage) error {
	var s jsonschema.Schema
	err := json.Unmarshal(text, &s)
	if err == nil {
		_, err = s.Resolve(nil)
	}
	if err == nil && s.Type != "" && s.Type != "object" {
		err = fmt.Errorf("its type is %q, and must be object", s.Type)
	}
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "run agent", "output", "the schema of the answer: %w", err).WithHint("give a JSON Schema of draft 2020-12 for an object, without references to other documents")
	}
	return nil
}

// schemasOf reads the tools' schemas. A tool whose schema cannot be read has its
// arguments unchecked: the tool decodes them itself.
func schemasOf(tools map[string]Tool) map[string]*schema {
	all := map[string]*schema{}
	for name, t := range tools {
		all[name] = outputSchema(t.Schema)
	}
	return all
}

func outputSchema(text json.RawMessage) *schema {
	var s jsonschema.Schema
	if len(text) == 0 || json.Unmarshal(text, &s) != nil {
		return nil
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return &schema{resolved}
}

// wrong says why arguments do not fit, or "".
func (s *schema) wrong(args json.RawMessage) string {
	var v any
	if err := json.Unmarshal(args, &v); err != nil {
		return fmt.Sprintf("the arguments are not valid JSON: %v", err)
	}
	if s == nil {
		return ""
	}
	if err := s.Validate(v); err != nil {
		return fmt.Sprintf("the arguments do not fit the tool's schema: %v", err)
	}
	return ""
}
