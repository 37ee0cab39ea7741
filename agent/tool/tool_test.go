package tool_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestToolsAndTheirArguments pins the names that models know. Arguments with "!" are required.
func TestToolsAndTheirArguments(t *testing.T) {
	want := map[string]string{
		"write_todos": "merge todos!",
		"ls":          "path",
		"read_file":   "column limit offset path!",
		"write_file":  "content! path!",
		"edit_file":   "all new! old! path!",
		"glob":        "path pattern!",
		"grep":        "include path pattern!",
		"execute":     "command! timeout_seconds",
	}
	deep, _ := inDir(t)
	got := map[string]string{}
	for _, tool := range deep.tools {
		var schema struct {
			Type       string
			Required   []string
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || tool.Description == "" {
			t.Errorf("%s: %s: %v", tool.Name, tool.Schema, err)
		}
		names := slices.Sorted(maps.Keys(schema.Properties))
		for i, name := range names {
			if schema.Properties[name].Description == "" {
				t.Errorf("%s does not say what %s is", tool.Name, name)
			}
			if slices.Contains(schema.Required, name) {
				names[i] += "!"
			}
		}
		got[tool.Name] = strings.Join(names, " ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the tools are %v, want %v", got, want)
	}
	delete(want, "execute")
	standard := inState(t).tools
	for _, tool := range standard {
		if _, ok := want[tool.Name]; !ok {
			t.Errorf("the standard tools have %s", tool.Name)
		}
	}
	if len(standard) != len(want) {
		t.Errorf("the standard tools are %d, want %d", len(standard), len(want))
	}
}
