// Package agenttool is a table of the tools of the agents that segno supports. It lists the effect
// of each tool, and the fields of its input that name its subject. All parts of segno that judge a
// call use this table.
//
// A tool that is not in the table may do anything.
package agenttool

import (
	"encoding/json"
	"slices"
	"strings"
)

// Effect is the effect that a call of a tool can have on files.
type Effect int

const (
	Unknown Effect = iota // it may change any file
	Reads                 // it changes no file
	Plans                 // it changes only the agent's own list of work
	Asks                  // it asks the user, or controls the agent or its tasks
	Starts                // it starts a subagent, whose calls the agent reports separately
	Writes                // it changes at most the files that its input names
	Runs                  // it runs a command, which may change any file
)

// Tool describes a tool.
type Tool struct {
	Effect Effect
	// Kind is the kind of the tool's action in the Agent Client Protocol, or "write" for a tool
	// that writes whole files. If it is "", the kind that the agent reports counts.
	Kind string
	// Subject lists the fields of the tool's input that can name its subject: files, or the
	// command.
	Subject []string
	// Removes is set if the tool can delete a file that its input names.
	Removes bool
}

// ChangesFiles reports whether a call can change a file.
func (t Tool) ChangesFiles() bool {
	return t.Effect == Unknown || t.Effect == Writes || t.Effect == Runs
}

// Of returns the tool with a name. Case does not matter. An unknown name gives the zero Tool.
func Of(name string) Tool { return table[strings.ToLower(name)] }

// IsShell reports whether a tool runs commands.
func IsShell(name string) bool { return Of(name).Effect == Runs }

// The kinds that have more than one tool.
const (
	kindWrite   = "write"
	kindEdit    = "edit"
	kindSearch  = "search"
	kindThink   = "think"
	kindOther   = "other"
	kindExecute = "execute"
)

// table has the tools of all agents by their names in lower case. Agents that use the same name use it for the same
// kind of tool.
var table = join(claudeCode, codex, geminiCLI, openCode, protocol, goAgents)

var (
	reads     = Tool{Effect: Reads, Kind: kindSearch}
	readsFile = Tool{Effect: Reads, Kind: "read"}
	plans     = Tool{Effect: Plans, Kind: kindThink}
	asks      = Tool{Effect: Asks}
	starts    = Tool{Effect: Starts, Kind: kindOther}
	runs      = Tool{Effect: Runs, Kind: kindExecute, Subject: []string{"command", "cmd"}}
)

// writes is a tool that writes the files that fields of its input name.
func writes(kind string, fields ...string) Tool {
	return Tool{Effect: Writes, Kind: kind, Subject: fields}
}

// removes is a tool that can also remove these files.
func removes(kind string, fields ...string) Tool {
	return Tool{Effect: Writes, Kind: kind, Subject: fields, Removes: true}
}

// claudeCode has the tools of Claude Code 2.1.
var claudeCode = map[string]Tool{
	"bash":            runs,
	"write":           writes(kindWrite, "file_path", "filePath"), // filePath is OpenCode's
	"edit":            writes(kindEdit, "file_path", "filePath", "path"),
	"multiedit":       writes(kindEdit, "file_path"),
	"notebookedit":    writes(kindEdit, "notebook_path"),
	"read":            readsFile,
	"notebookread":    reads,
	"glob":            reads,
	"grep":            reads,
	"ls":              reads,
	"webfetch":        reads,
	"websearch":       reads,
	"toolsearch":      reads,
	"bashoutput":      reads,
	"taskoutput":      {Effect: Reads},
	"todowrite":       plans,
	"todoread":        plans,
	"enterplanmode":   plans,
	"exitplanmode":    plans,
	"taskcreate":      {Effect: Plans},
	"taskupdate":      {Effect: Plans},
	"tasklist":        {Effect: Plans},
	"taskget":         {Effect: Plans},
	"taskstop":        asks,
	"killshell":       asks,
	"askuserquestion": asks,
	"skill":           asks,
	"agent":           starts,
	"task":            starts,
}

// codex has the tools of Codex 0.125 to 0.169.
var codex = map[string]Tool{
	"exec_command": runs,
	"shell":        runs,
	"local_shell":  runs,
	"apply_patch":  removes(kindEdit, "command", "input"), // a patch names its files
	"update_plan":  plans,
	"web_search":   reads,
	"view_image":   readsFile,
}

// geminiCLI has the tools of Gemini CLI 0.61.
var geminiCLI = map[string]Tool{
	"run_shell_command":   runs,
	"write_file":          writes(kindWrite, "file_path", "path"),
	"replace":             writes(kindEdit, "file_path"),
	"read_file":           reads,
	"read_many_files":     reads,
	"list_directory":      reads,
	"search_file_content": reads,
	"grep_search":         reads,
	"google_web_search":   reads,
	"web_fetch":           reads,
	"write_todos":         plans,
	"ask_user":            asks,
}

// openCode has those tools of OpenCode 1.18 that Claude Code lacks.
var openCode = map[string]Tool{
	"list":       reads,
	"codesearch": reads,
	"lsp":        reads,
	"question":   asks,
}

// protocol has the kinds of tools in the Agent Client Protocol, and the methods of a client. The
// name of a call is its kind if the agent announces no name.
var protocol = map[string]Tool{
	"execute":            {Effect: Runs, Kind: kindExecute, Subject: []string{"command", "cmd"}},
	"delete":             removes("delete", "path", "file_path"),
	"move":               removes("move", "path", "source", "destination"),
	"search":             reads,
	"fetch":              {Effect: Reads, Kind: "fetch"},
	"think":              plans,
	"switch_mode":        {Effect: Plans, Kind: "switch_mode"},
	"fs/read_text_file":  reads,
	"fs/write_text_file": writes(kindWrite, "path"),
}

// goAgents has the tools of package agent/tool, and names that other Go agents use.
var goAgents = map[string]Tool{
	"edit_file":   writes(kindEdit, "path"),
	"append_file": writes(kindEdit, "path"),
	"create_file": writes(kindWrite, "path", "file_path"),
	"str_replace": writes(kindEdit, "path", "file_path"),
}

func join(parts ...map[string]Tool) map[string]Tool {
	all := map[string]Tool{}
	for _, part := range parts {
		for name, tool := range part {
			all[name] = tool
		}
	}
	return all
}

// SubjectFields returns the fields of a call's input that can name its subject, the most specific first: the tool's own
// fields, and then fields that many tools have.
func SubjectFields(name string) []string {
	general := []string{"command", "cmd", "file_path", "filePath", "notebook_path", "path", "abs_path", "url", "uri", "pattern", "query"}
	return slices.Concat(Of(name).Subject, general)
}

// texts returns the values of the fields that name the subject of a call.
func (t Tool) texts(input map[string]json.RawMessage) (texts []string) {
	for _, field := range t.Subject {
		var text string
		if json.Unmarshal(input[field], &text) == nil && text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Files returns the files that the input of a call names as its subject, unchanged. It returns none
// if the tool does not write named files, or if the input names none.
func (t Tool) Files(input json.RawMessage) (files []string) {
	var in map[string]json.RawMessage
	if t.Effect != Writes || json.Unmarshal(input, &in) != nil {
		return nil
	}
	for _, text := range t.texts(in) {
		if strings.Contains(text, PatchBegin) {
			files = append(files, PatchFiles(text)...)
		} else if !strings.Contains(text, "\n") {
			files = append(files, text)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// ReportsCalls reports whether an agent, by its name, certainly reports each tool call, by hooks or by
// messages. Another agent may call tools that it does not report.
func ReportsCalls(agent string) bool {
	return slices.Contains([]string{"claude", "gemini", "opencode"}, agent)
}

// HasAllResults reports whether an agent reports the end of every call that it made before its turn ends. For such an
// agent, a call without an end was denied.
func HasAllResults(agent string) bool { return agent == "claude" }
