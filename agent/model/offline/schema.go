package offline

import (
	"encoding/json"
	"slices"
	"strings"
)

// schema is the part of JSON Schema that exampleOf supports.
type schema struct {
	Type       any                `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	MinItems   int                `json:"minItems"`
	Enum       []json.RawMessage  `json:"enum"`
	Const      json.RawMessage    `json:"const"`
	Minimum    *float64           `json:"minimum"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
}

// exampleOf returns an object that matches a schema: strings are text, numbers the minimum, and
// only required properties are set, or all if none is required.
func exampleOf(raw json.RawMessage, text string) json.RawMessage {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return encode(map[string]any{})
	}
	if s.Properties != nil || s.kind() == "" && s.Ref == "" {
		s.Type = "object"
	}
	return encode(s.value(text, s.Defs, 0))
}

// maxDepth bounds recursive schemas.
const maxDepth = 8

// value returns an example that matches the schema.
func (s *schema) value(text string, defs map[string]*schema, depth int) any {
	if s == nil || depth > maxDepth {
		return nil
	}
	if def := defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; s.Ref != "" && def != nil {
		return def.value(text, defs, depth+1)
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].value(text, defs, depth+1)
	case len(s.OneOf) > 0:
		return s.OneOf[0].value(text, defs, depth+1)
	}
	return s.typedValue(text, defs, depth)
}

// typedValue returns an example by the schema's type.
func (s *schema) typedValue(text string, defs map[string]*schema, depth int) any {
	switch s.kind() {
	case "object":
		object := map[string]any{}
		for name, of := range s.Properties {
			if len(s.Required) == 0 || slices.Contains(s.Required, name) {
				object[name] = of.value(text, defs, depth+1)
			}
		}
		return object
	case "array":
		list := []any{}
		for len(list) < min(s.MinItems, 100) {
			list = append(list, s.Items.value(text, defs, depth+1))
		}
		return list
	case "number", "integer":
		if s.Minimum != nil && *s.Minimum > 0 {
			return *s.Minimum
		}
		return 0
	case "boolean":
		return false
	case "string":
		return text
	}
	return nil
}

// kind returns the schema's type; of several, the first that is not null.
func (s *schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, x := range t {
			if name, ok := x.(string); ok && name != "null" {
				return name
			}
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}
