package agents_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
)

// TestEveryAgentIsComplete checks what the rest of segno expects of each agent in the list.
func TestEveryAgentIsComplete(t *testing.T) {
	var names []string
	for _, p := range agents.All() {
		if p.Name == "" || slices.Contains(names, p.Name) {
			t.Errorf("the name %q is empty or used twice", p.Name)
		}
		names = append(names, p.Name)
		for _, place := range agents.Denied() {
			if place != strings.ToLower(place) {
				t.Errorf("%s: the place %s is not in lower case", p.Name, place)
			}
		}
		if p.Hooks == nil {
			continue
		}
		if len(p.Home) == 0 || p.Home[len(p.Home)-1].Variable != profile.UserHome {
			t.Errorf("%s: the last place of its home is not in the user's home", p.Name)
		}
		for _, name := range []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"} {
			if !slices.ContainsFunc(p.Hooks.Registrations, func(r profile.Registration) bool { return p.Hooks.NameOf(r.Event) == name && r.Timeout > 1 }) {
				t.Errorf("%s: no event is %s", p.Name, name)
			}
		}
	}
}

// TestAgentsAgreeAboutTools compares the tools of each agent with the joined table. If two agents gave a name two
// effects, a call of it would be one of an unknown tool.
func TestAgentsAgreeAboutTools(t *testing.T) {
	for _, p := range agents.All() {
		for name, tool := range p.Tools {
			joined := agents.Tool(name)
			if name != strings.ToLower(name) || joined.Effect != tool.Effect || joined.Kind != tool.Kind || joined.Removes != tool.Removes {
				t.Errorf("%s: %s is %+v, but in the table %+v", p.Name, name, tool, joined)
			}
			for _, field := range tool.Subject {
				if !slices.Contains(joined.Subject, field) {
					t.Errorf("%s: the field %s of %s is not in the table", p.Name, field, name)
				}
			}
		}
	}
}
