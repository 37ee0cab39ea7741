// Package agents lists the agents that segno knows, and answers questions about their tools. Each agent has one
// directory here with what segno knows about it. To add an agent, add its directory, and its line in list.go.
//
// All parts of segno that judge a tool call use these tables. A tool that no agent lists may do anything.
package agents

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents/profile"
)

// All returns the agents. The caller must not change them.
func All() []profile.Profile { return list }

// Of returns the agent with a name. ok is false if segno does not know the agent.
func Of(name string) (p profile.Profile, ok bool) {
	i := slices.IndexFunc(list, func(p profile.Profile) bool { return p.Name == name })
	if i < 0 {
		return p, false
	}
	return list[i], true
}

// WithHooks returns the names of the agents that have hooks which segno can register.
func WithHooks() (names []string) {
	for _, p := range list {
		if p.Hooks != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// WithPlugins returns the agents for which segno makes a plugin.
func WithPlugins() (found []profile.Profile) {
	for _, p := range list {
		if p.Plugin != nil {
			found = append(found, p)
		}
	}
	return found
}

// ProjectFiles returns the settings files with hooks, relative to a project.
func ProjectFiles() (files []string) {
	for _, p := range list {
		if p.Hooks != nil {
			files = append(files, p.Hooks.ProjectFile)
		}
	}
	return files
}

// Denied returns the places of all agents that no archive contains: those that give abilities, and the logins.
func Denied() (places []string) {
	for _, p := range list {
		places = append(places, p.Denied...)
		if p.Login != nil {
			places = append(places, path.Join(filepath.ToSlash(p.DataDir().InHome()), p.Login.File))
		}
	}
	return places
}

// Tool returns the tool with a name. Case does not matter. An unknown name gives the zero Tool. Agents that use the same
// name use it for the same tool, but the fields of its input can differ. If two agents disagree about its effect, the
// tool may do anything. Tool joins what the agents have about this one name, and keeps no table of all tools: a hook, for
// which the agent waits, asks once in its life.
func Tool(name string) profile.Tool {
	name = strings.ToLower(name)
	joined, isKnown := protocol(name)
	for _, agent := range list {
		t, has := agent.Tools[name]
		switch {
		case !has:
			continue
		case !isKnown:
			joined = t
		case joined.Effect != t.Effect || joined.Removes != t.Removes:
			joined = profile.Tool{}
		default:
			for _, field := range t.Subject {
				if !slices.Contains(joined.Subject, field) {
					joined.Subject = append(slices.Clip(joined.Subject), field)
				}
			}
		}
		isKnown = true
	}
	return joined
}

// IsShell reports whether a tool runs commands.
func IsShell(name string) bool { return Tool(name).Effect == profile.Runs }

// SubjectFields returns the fields of a call's input that can name its subject, the most specific first: the tool's own
// fields, and then fields that many tools have.
func SubjectFields(name string) []string {
	general := []string{"command", "cmd", "file_path", "filePath", "notebook_path", "path", "abs_path", "url", "uri", "pattern", "query"}
	return slices.Concat(Tool(name).Subject, general)
}

// ReportsCalls reports whether an agent, by its name, certainly reports each tool call.
func ReportsCalls(agent string) bool {
	p, _ := Of(agent)
	return p.ReportsCalls
}

// HasAllResults reports whether an agent reports the end of every call that it made before its turn ends.
func HasAllResults(agent string) bool {
	p, _ := Of(agent)
	return p.HasAllResults
}

// protocol returns a kind of tools in the Agent Client Protocol, or a method of a client, by its name. The name of a call
// is its kind if the agent announces no name.
func protocol(name string) (t profile.Tool, isKnown bool) {
	switch name {
	case "execute":
		return profile.Run, true
	case "edit":
		return profile.Edit("path"), true
	case "delete":
		return profile.Remove("delete", "path", "file_path"), true
	case "move":
		return profile.Remove("move", "path", "source", "destination"), true
	case "read", "fs/read_text_file":
		return profile.Read, true
	case "search":
		return profile.Search, true
	case "fetch":
		return profile.Tool{Effect: profile.Reads, Kind: "fetch"}, true
	case "think":
		return profile.Plan, true
	case "switch_mode":
		return profile.Tool{Effect: profile.Plans, Kind: "switch_mode"}, true
	case "fs/write_text_file":
		return profile.Write("path"), true
	}
	return profile.Tool{}, false
}
