package agent

import (
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
		r.values.Delete(outputKey)
		return nil
	}
	return r.values.Set(outputKey, r.in.Output)
}

// findOutput finds the schema of the turn that the run goes on with.
func (r *run) findOutput() error {
	if r.in.Output != nil || r.in.Prompt != "" || len(r.in.Parts) > 0 {
		return nil
	}
	_, err := r.values.Get(outputKey, &r.in.Output)
	return err
}

// answered reports whether the structured answer is among calls, and taken.
func (r *run) answered(calls []Call) bool {
	if r.in.Output == nil {
		return false
	}
	for _, c := range calls {
		if c.Name == answerName && outputSchema(r.in.Output).wrong(c.Args) == "" {
			return true
		}
	}
	return false
}

// nudge reminds a model that ended its turn without the structured answer, a few
// times.
func (r *run) nudge() error {
	const most = 3
	if r.nudges++; r.nudges > most {
		return &segno.Error{Op: "run agent", Name: string(r.thread), Kind: segno.KindRefused, Err: errText("the model gives no structured answer"),
			Hint: "simplify the schema, or use another model"}
	}
	return r.say(Message{Role: User, Parts: []Part{{Text: "Give your answer with the tool " + answerName + "."}}})
}

// result takes the structured answer from the result of its call: the text is what
// was answered.
func (t *teller) result(res *Result) {
	if res.Name == answerName && !res.Error {
		var v any
		if json.Unmarshal([]byte(res.Text), &v) == nil {
			t.output = v
		}
	}
}

// schema checks arguments.
type schema struct{ *jsonschema.Resolved }

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
