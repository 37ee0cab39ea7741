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

// tools are joined once, because a hook asks at each tool call. They do not change.
var tools = join(list)

// Tool returns the tool with a name. Case does not matter. An unknown name gives the zero Tool.
func Tool(name string) profile.Tool { return tools[strings.ToLower(name)] }

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

// protocol has the kinds of tools in the Agent Client Protocol, and the methods of a client. The name of a call is its
// kind if the agent announces no name.
func protocol() map[string]profile.Tool {
	return map[string]profile.Tool{
		"execute":            profile.Run,
		"edit":               profile.Edit("path"),
		"delete":             profile.Remove("delete", "path", "file_path"),
		"move":               profile.Remove("move", "path", "source", "destination"),
		"read":               profile.Read,
		"search":             profile.Search,
		"fetch":              {Effect: profile.Reads, Kind: "fetch"},
		"think":              profile.Plan,
		"switch_mode":        {Effect: profile.Plans, Kind: "switch_mode"},
		"fs/read_text_file":  profile.Read,
		"fs/write_text_file": profile.Write("path"),
	}
}

// join returns the tools of all agents and of the protocol. Agents that use the same name use it for the same tool, but
// the fields of its input can differ. If two agents disagree about its effect, the tool may do anything.
func join(agents []profile.Profile) map[string]profile.Tool {
	joined := protocol()
	for _, agent := range agents {
		for name, t := range agent.Tools {
			known, isKnown := joined[name]
			switch {
			case !isKnown:
				joined[name] = t
			case known.Effect != t.Effect || known.Removes != t.Removes:
				joined[name] = profile.Tool{}
			default:
				for _, field := range t.Subject {
					if !slices.Contains(known.Subject, field) {
						known.Subject = append(slices.Clip(known.Subject), field)
					}
				}
				joined[name] = known
			}
		}
	}
	return joined
}
