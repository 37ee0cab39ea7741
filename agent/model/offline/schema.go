package offline

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// exampleOf returns an object that matches a schema: strings are text, numbers the minimum, and
// only required properties are set, or all if none is required.
func exampleOf(raw json.RawMessage, text string) json.RawMessage {
	var root jsonschema.Schema
	if json.Unmarshal(raw, &root) != nil {
		return json.RawMessage("{}")
	}
	if root.Properties != nil || root.Ref == "" && typeOf(&root) == "" {
		root.Type = "object"
	}
	return encode(example{text, root.Defs}.of(&root, 0))
}

// example has the text and the definitions for an example.
type example struct {
	text string
	defs map[string]*jsonschema.Schema
}

// maxDepth bounds recursive schemas.
const maxDepth = 8

// of returns an example that matches a schema.
func (x example) of(s *jsonschema.Schema, depth int) any {
	if s == nil || depth > maxDepth {
		return nil
	}
	if def := x.defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; s.Ref != "" && def != nil {
		return x.of(def, depth+1)
	}
	switch alternatives := slices.Concat(s.AnyOf, s.OneOf); {
	case s.Const != nil:
		return *s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(alternatives) > 0:
		return x.of(alternatives[0], depth+1)
	}
	return x.ofType(s, depth)
}

// ofType returns an example by the schema's type.
func (x example) ofType(s *jsonschema.Schema, depth int) any {
	switch typeOf(s) {
	case "object":
		object := map[string]any{}
		for name, property := range s.Properties {
			if len(s.Required) == 0 || slices.Contains(s.Required, name) {
				object[name] = x.of(property, depth+1)
			}
		}
		return object
	case "array":
		list := []any{}
		for s.MinItems != nil && len(list) < min(*s.MinItems, 100) {
			list = append(list, x.of(s.Items, depth+1))
		}
		return list
	case "number", "integer":
		if s.Minimum != nil {
			return max(0, *s.Minimum)
		}
		return 0
	case "boolean":
		return false
	case "string":
		return x.text
	}
	return nil
}

// typeOf returns a schema's type. If the schema has several, it returns the first that is not null.
func typeOf(s *jsonschema.Schema) string {
	for _, t := range append([]string{s.Type}, s.Types...) {
		if t != "" && t != "null" {
			return t
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}
