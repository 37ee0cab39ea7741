package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/dalsegno/segno"
)

// answerName is the name of the tool for the structured answer. Every model that can call
// tools can use it.
const answerName = "final_answer"

func answerTool(schema json.RawMessage) ToolSpec {
	return ToolSpec{Name: answerName, Description: "Give your final answer, once everything else is done. It ends the turn.", Schema: schema}
}

// outputKey is the state's key for the schema of the open turn's answer. The schema is saved so that
// a caller can continue the turn without passing it again.
const outputKey = ".output"

func (r *run) saveOutputSchema() error {
	if r.in.Output == nil {
		r.values.delete(outputKey)
		return nil
	}
	return r.values.set(outputKey, r.in.Output)
}

// loadOutputSchema loads the schema of the turn that the run continues.
func (r *run) loadOutputSchema(context.Context) error {
	if r.in.Output != nil || r.in.hasPrompt() {
		return nil
	}
	_, err := r.values.Get(outputKey, &r.in.Output)
	return err
}

// schema validates arguments. A nil schema accepts any JSON.
type schema struct{ *jsonschema.Resolved }

// checkOutput returns an error for a schema that cannot validate an answer.
func checkOutput(text json.RawMessage) error {
	if text == nil {
		return nil
	}
	err := checkSchema(text)
	if err == nil {
		var s struct{ Type any }
		if json.Unmarshal(text, &s) == nil && s.Type != nil && s.Type != "object" {
			err = fmt.Errorf("its type is %q, and must be object", s.Type)
		}
	}
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "run agent", "output", "the schema of the answer: %w", err).
			WithHint("give a JSON Schema of draft 2020-12 for an object, without references to other documents")
	}
	return nil
}

// checkSchema returns an error for a JSON Schema that cannot validate a value. nil accepts any value.
func checkSchema(text json.RawMessage) error {
	if text == nil {
		return nil
	}
	var s jsonschema.Schema
	err := json.Unmarshal(text, &s)
	if err == nil {
		_, err = s.Resolve(nil)
	}
	return err
}

// parseSchema returns nil for a schema that it cannot parse: the tool then decodes the
// arguments unchecked.
func parseSchema(text json.RawMessage) *schema {
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

// invalid returns why arguments do not match, or "".
func (s *schema) invalid(args json.RawMessage) string {
	if !json.Valid(args) {
		return fmt.Sprintf("the arguments are not valid JSON: %v", s.check(args))
	}
	if err := s.check(args); err != nil {
		return fmt.Sprintf("the arguments do not match the tool's schema: %v", err)
	}
	return ""
}

// check returns an error for a value that does not match.
func (s *schema) check(value json.RawMessage) error {
	var v any
	if err := json.Unmarshal(value, &v); err != nil || s == nil {
		return err
	}
	return s.Validate(v)
}
