// Package tool has the tools of a deep agent: todos, files, a search in them, and
// commands.
//
// Files are either in the agent's state, so that every checkpoint has them
// ([InState]), or in a directory that the tools cannot leave ([InDir]), or
// wherever a [FileSystem] of your own keeps them. A path is slash-separated and
// begins at the root, with a leading "/" or without.
//
// A file in the state is the value of the key "files/" and its name without a
// leading slash. The value is {"text": …}, or {"data": …} in base64 for bytes that
// are not UTF-8, and has nothing else in it: a file that is written as it was
// stores nothing. Names below "large_tool_results/" are the agent's own: they are
// read from the state whatever the file system is, and no tool writes them.
//
// What goes wrong is told to the model in one line that says what to do next.
package tool

import (
	"os"

	"github.com/dalsegno/segno/agent"
)

// Standard are the tools that touch nothing but the agent's state: todos and
// files.
func Standard() []agent.Tool {
	return append([]agent.Tool{Todos()}, Files(InState())...)
}

// Deep are all tools for work in a directory: todos, files and commands. root is
// the opened dir; it stays the caller's to close.
func Deep(dir string, root *os.Root) []agent.Tool {
	tools := append([]agent.Tool{Todos()}, Files(InDir(root))...)
	return append(tools, Execute(dir, ExecuteOptions{}))
}

// emit sends an event, if anyone listens.
func emit(inv *agent.Invocation, ev agent.Event) {
	if inv.Emit != nil {
		inv.Emit(ev)
	}
}
