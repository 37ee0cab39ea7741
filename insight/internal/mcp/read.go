package mcp

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
)

// addReads adds the tools that read. Each runs the verb of its name.
func (s *server) addReads(m *mcp.Server) {
	addVerb[logArgs](s, m, "log", "List the checkpoints of this thread, newest first: turns with their prompts, times and numbers of changed files. With paths, only those that changed them.")
	addVerb[showArgs](s, m, "show", "Show one turn: its prompt, the tool calls, the answer and the changed files.")
	addVerb[diffArgs](s, m, "diff", "Show the differences of files as a patch: between two checkpoints, or from one to the present files.")
	addVerb[catArgs](s, m, "cat", "Read a file as it was at a checkpoint, also one that is deleted now.")
	addVerb[blameArgs](s, m, "blame", "Show for each line of a file which turn brought it, with the prompt, or that no turn did.")
	addVerb[searchArgs](s, m, "search", "Search the prompts, answers, commands and changed files of the threads of this directory.")
	addVerb[noArgs](s, m, "threads", "List the threads of this directory.")
	addVerb[noArgs](s, m, "status", "Show the state of this directory: the head of the thread, open turns, and moves that wait for the end of a turn.")
}

// arguments are the arguments of a tool that runs a verb.
type arguments interface {
	// commandLine returns the arguments of the verb.
	commandLine() ([]string, error)
}

// addVerb adds the tool that runs a verb.
func addVerb[In arguments](s *server, m *mcp.Server, verb, description string) {
	isClosed := false
	tool := &mcp.Tool{Name: verb, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &isClosed}}
	mcp.AddTool(m, tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		result, text, err := s.runVerb(ctx, req, verb, in)
		if err != nil {
			return s.failed(err)
		}
		return answer(map[string]any{"result": result}, text)
	})
}

// runVerb runs a verb on the thread of the call. A directory that is in no workspace is an error, although some verbs would
// show other directories there.
func (s *server) runVerb(ctx context.Context, req *mcp.CallToolRequest, verb string, in arguments) (any, string, error) {
	args, err := in.commandLine()
	if err != nil {
		return nil, "", err
	}
	c, err := s.begin(ctx, req)
	if err != nil {
		return nil, "", err
	}
	c.d.Close()
	if verb == "search" {
		c.app.ThreadName = s.app.ThreadName // all threads of the directory
	}
	result, text, err := c.app.Run(ctx, append([]string{verb}, args...)...)
	if result != nil {
		err = nil // the exit code is not zero, but there is a result
	}
	return result, text, err
}

type noArgs struct{}

func (noArgs) commandLine() ([]string, error) { return nil, nil }

type logArgs struct {
	Paths []string `json:"paths,omitempty" jsonschema:"only the checkpoints that changed one of these files or directories"`
	Limit int      `json:"limit,omitempty" jsonschema:"at most this many checkpoints, 20 if absent"`
}

func (a logArgs) commandLine() ([]string, error) {
	n, err := limit(a.Limit, 500)
	if err == nil {
		err = checkNames(a.Paths...)
	}
	args := []string{fmt.Sprintf("--limit=%d", n)}
	if len(a.Paths) > 0 {
		args = append(append(args, "--"), a.Paths...)
	}
	return args, err
}

type showArgs struct {
	Checkpoint string `json:"checkpoint,omitempty" jsonschema:"t3, @, @-, a pin or the beginning of an id; the head if absent"`
}

func (a showArgs) commandLine() ([]string, error) {
	if a.Checkpoint == "" {
		return nil, nil
	}
	return []string{a.Checkpoint}, checkNames(a.Checkpoint)
}

type diffArgs struct {
	From  string   `json:"from,omitempty" jsonschema:"a checkpoint; the head if absent"`
	To    string   `json:"to,omitempty" jsonschema:"a checkpoint; the present files if absent"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files or directories"`
}

func (a diffArgs) commandLine() (args []string, err error) {
	if a.From != "" {
		args = append(args, a.From)
	}
	if a.To != "" {
		if a.From == "" {
			args = append(args, "@")
		}
		args = append(args, a.To)
	}
	if slices.ContainsFunc(args, cli.IsArchiveName) {
		return nil, segno.Errorf(segno.KindInvalid, "diff", "", "an archive is not a checkpoint of this directory").WithHint("name checkpoints as log lists them")
	}
	err = checkNames(slices.Concat(args, a.Paths)...)
	return append(append(args, "--"), a.Paths...), err
}

type catArgs struct {
	Checkpoint string `json:"checkpoint" jsonschema:"t3, @, @-, a pin or the beginning of an id"`
	Path       string `json:"path" jsonschema:"of the file, relative to the working directory or the workspace"`
}

func (a catArgs) commandLine() ([]string, error) {
	return []string{a.Checkpoint + ":" + a.Path}, checkNames(a.Checkpoint, a.Path)
}

type blameArgs struct {
	Path       string `json:"path" jsonschema:"of the file, relative to the working directory or the workspace"`
	Checkpoint string `json:"checkpoint,omitempty" jsonschema:"the file as it was at this checkpoint; the present file if absent"`
	From       int    `json:"from,omitempty" jsonschema:"the first line, from 1"`
	To         int    `json:"to,omitempty" jsonschema:"the last line; the end of the file if absent"`
}

func (a blameArgs) commandLine() (args []string, err error) {
	if min(a.From, a.To) < 0 {
		return nil, segno.Errorf(segno.KindInvalid, "blame", "", "lines count from 1")
	}
	if a.Checkpoint != "" {
		args = append(args, "--at="+a.Checkpoint)
	}
	if a.From+a.To > 0 {
		lines := fmt.Sprintf("-L%d,", max(a.From, 1))
		if a.To > 0 {
			lines += strconv.Itoa(a.To)
		}
		args = append(args, lines)
	}
	return append(args, "--", a.Path), checkNames(a.Checkpoint, a.Path)
}

type searchArgs struct {
	Text    string `json:"text,omitempty" jsonschema:"words, a \"phrase\" in quotes, a prefix* or a /regular expression/"`
	Changed string `json:"changed,omitempty" jsonschema:"instead of text: the turns that changed this path"`
	Deleted string `json:"deleted,omitempty" jsonschema:"instead of text: the turns that deleted this path"`
	Line    string `json:"line,omitempty" jsonschema:"instead of text: the turns that added or removed a line with this text"`
	In      string `json:"in,omitempty" jsonschema:"only in this field: prompt, answer, tool, output or all"`
	Limit   int    `json:"limit,omitempty" jsonschema:"at most this many hits, 20 if absent"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"next of an earlier result"`
}

// searchWait limits the time in which a search brings its index up to date. The result contains what is missing.
const searchWait = "20s"

func (a searchArgs) commandLine() ([]string, error) {
	n, err := limit(a.Limit, 100)
	args := []string{"--here", "--wait=" + searchWait, fmt.Sprintf("--limit=%d", n)}
	for _, flag := range []struct{ name, value string }{{"changed", a.Changed}, {"deleted", a.Deleted}, {"line", a.Line}, {"in", a.In}, {"cursor", a.Cursor}} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	if err == nil {
		err = checkTexts(a.Text, a.Changed, a.Deleted, a.Line, a.In, a.Cursor)
	}
	if a.Text != "" {
		args = append(args, "--", a.Text)
	}
	return args, err
}

// limit checks the number of items that a client asks for. 0 is the default.
func limit(n, most int) (int, error) {
	switch {
	case n == 0:
		return 20, nil
	case n < 0 || n > most:
		return 0, segno.Errorf(segno.KindInvalid, "read arguments", "", "limit takes a number from 1 to %d", most)
	}
	return n, nil
}
