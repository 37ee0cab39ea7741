// Package tool contains tools for agents that work on files: todos, files, search, and commands.
//
// [Standard] returns tools without effects outside the agent's state, and [Deep] tools for a
// directory. Files are in the state ([InState]), so that every checkpoint has them, in a
// directory that the tools cannot leave ([InDir]), or in another [FileSystem]. A path is
// slash-separated and begins at the root, with or without a leading "/".
//
// A file in the state is the value of the key "files/" and its name. The value is
// {"text": …}, or {"data": …} in base64 for bytes that are not UTF-8. It contains nothing
// else, so writing the same content changes nothing. Names below "large_tool_results/" are
// reserved for evicted results: every file system reads them from the state, and no tool
// writes them.
//
// The model receives an error as one line with advice.
package tool

import (
	"os"

	"github.com/dalsegno/segno/agent"
)

// Standard returns the tools without effects outside the agent's state: todos and files.
func Standard() []agent.Tool {
	return append([]agent.Tool{Todos()}, Files(InState())...)
}

// Deep returns all tools for work in a directory: todos, files and commands. root is the opened
// dir; the caller closes it.
func Deep(dir string, root *os.Root) []agent.Tool { return DeepWith(dir, root, ExecuteOptions{}) }

// DeepWith is [Deep] with options for commands, such as a sandbox. The other tools cannot leave the directory in any case.
func DeepWith(dir string, root *os.Root, o ExecuteOptions) []agent.Tool {
	tools := append([]agent.Tool{Todos()}, Files(InDir(root))...)
	return append(tools, Execute(dir, o))
}

// The kinds of event of the tools.
const (
	eventFileStart   agent.EventKind = "file-write-start" // live: Path
	EventFileWritten agent.EventKind = "file-written"     // Path, Count bytes
	EventFileEdited  agent.EventKind = "file-edited"      // Path, Count places
	eventFileRead    agent.EventKind = "file-read"        // Path, Count lines
	eventList        agent.EventKind = "ls"               // Path, Count names
	eventGlob        agent.EventKind = "glob"             // Pattern, Count paths
	eventGrep        agent.EventKind = "grep"             // Pattern, Count lines
	eventExecStart   agent.EventKind = "execute-start"    // live: Text is the command
	EventExecFinish  agent.EventKind = "execute-finish"   // Text is the command, Code
)

// emit sends an event if the invocation has an Emit.
func emit(inv *agent.Invocation, ev agent.Event) {
	if inv.Emit != nil {
		inv.Emit(ev)
	}
}
