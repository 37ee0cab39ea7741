package profile

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
	Starts                // it starts a subagent; the agent reports the calls of the subagent separately
	Writes                // it changes at most the files that its input names
	Runs                  // it runs a command, which may change any file
)

// Tool describes a tool. The zero Tool may do anything.
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

// KindWrite is the kind of a tool that writes whole files. The protocol has no such kind.
const KindWrite = "write"

// The tools that most agents have.
var (
	Search = Tool{Effect: Reads, Kind: "search"}
	Read   = Tool{Effect: Reads, Kind: "read"}
	Plan   = Tool{Effect: Plans, Kind: "think"}
	Ask    = Tool{Effect: Asks}
	Start  = Tool{Effect: Starts, Kind: "other"}
	Run    = Tool{Effect: Runs, Kind: "execute", Subject: []string{"command", "cmd"}}
)

// Write returns a tool that writes whole files, which fields of its input name.
func Write(fields ...string) Tool { return Tool{Effect: Writes, Kind: KindWrite, Subject: fields} }

// Edit returns a tool that changes parts of files, which fields of its input name.
func Edit(fields ...string) Tool { return Tool{Effect: Writes, Kind: "edit", Subject: fields} }

// Remove returns a tool that can also remove files, which fields of its input name.
func Remove(kind string, fields ...string) Tool {
	return Tool{Effect: Writes, Kind: kind, Subject: fields, Removes: true}
}

// ChangesFiles reports whether a call can change a file.
func (t Tool) ChangesFiles() bool {
	return t.Effect == Unknown || t.Effect == Writes || t.Effect == Runs
}

// Command returns the command in the input of a call, or "" if there is none.
func (t Tool) Command(input json.RawMessage) string {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(input, &in) // the input of an unknown tool can be anything
	for _, field := range t.Subject {
		if text := Text(in[field]); text != "" {
			return text
		}
	}
	return ""
}

// Text returns the value of a field that has a command. The command can be the last argument of a shell.
func Text(value json.RawMessage) string {
	var text string
	var words []string
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &words) == nil && len(words) > 0:
		return words[len(words)-1]
	}
	return ""
}

// Files returns the files that the input of a call names as its subject, unchanged. It returns none
// if the tool does not write named files, or if the input names none.
func (t Tool) Files(input json.RawMessage) (files []string) {
	var in map[string]json.RawMessage
	if t.Effect != Writes || json.Unmarshal(input, &in) != nil {
		return nil
	}
	for _, field := range t.Subject {
		switch text := Text(in[field]); {
		case strings.Contains(text, PatchBegin):
			files = append(files, PatchFiles(text)...)
		case text != "" && in[field][0] == '"' && !strings.Contains(text, "\n"): // the last of several words is not a file
			files = append(files, text)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
