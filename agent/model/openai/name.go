package openai

import (
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/endpoint"
)

// What the API takes of a tool's name and of a call's id, in letters.
const (
	maxName = 64
	maxID   = 40
)

// nameOf is a tool's name as the API takes it. Models make up others, and a
// conversation that has one would be refused for ever.
func nameOf(name string) string { return endpoint.Name(name, maxName) }

// idOf is a call's id as the API takes it: other servers make longer ones.
func idOf(id string) string { return endpoint.Short(id, maxID) }

// ownNames are the tools' own names, by the names that the API is told where those
// are others.
func ownNames(tools []agent.ToolSpec) map[string]string {
	own := map[string]string{}
	for _, t := range tools {
		if sent := nameOf(t.Name); sent != t.Name {
			own[sent] = t.Name
		}
	}
	return own
}
