// Package acptest tests programs between a client and an agent of the Agent Client
// Protocol. It has a scripted agent, a scripted client, and a tap that logs the
// bytes between two programs. It does not depend on the program under test.
//
// A test binary becomes the agent, the agent's tool or the tap if its first
// argument selects one of them and its TestMain calls [Main]:
//
//	if code, ran := acptest.Main(ctx, os.Args[1:], acptest.Standard()); ran {
//		os.Exit(code)
//	}
//
// The agent's command line is then the test binary with the arguments of
// [Config.Args].
//
// # Scripts
//
// A prompt scripts the agent's turn with a directive anywhere in its text,
//
//	<<acp [steps]>>
//
// which contains a JSON array of steps. [Directive] writes a directive and [Step]
// documents the steps. The agent has a model that receives only the input of a real model
// ([Request]): the session so far and the prompt. The model executes the newest directive
// that it finds in the session or the prompt, except for completed steps:
//
//   - A tool call is complete if any text contains "appended" or "refused" with its line.
//   - If a text outside of directives only names the line, it is unknown whether the call
//     was completed. The model reads the ledger and makes the call if the line is missing.
//   - A text is complete if the agent sent it in this session after the directive.
//   - A fault is complete if it happened as often as the step requires. Only this is
//     stored outside of the conversation.
//
// A prompt without a directive therefore continues an interrupted script, and so does
// a new session with a preamble that describes the turns. A session with an incomplete
// preamble repeats steps.
package acptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// The first arguments that select a program of [Main].
const (
	agentArg = "acptest-agent"
	toolArg  = "acptest-tool"
	tapArg   = "acptest-tap"
)

// Streams are the standard streams of a process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Standard returns the streams of this process.
func Standard() Streams { return Streams{os.Stdin, os.Stdout, os.Stderr} }

// Main runs the program that args selects, and returns its exit code. If args selects none,
// ran is false.
func Main(ctx context.Context, args []string, std Streams) (code int, ran bool) {
	if len(args) < 2 {
		return 0, false
	}
	var err error
	switch args[0] {
	case agentArg:
		var c Config
		if err = json.Unmarshal([]byte(args[1]), &c); err == nil {
			err = Agent(ctx, c, std.In, std.Out)
		}
	case toolArg:
		err = toolMain(ctx, args[1:])
	case tapArg:
		return tapMain(ctx, args[1:], std)
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(std.Err, "%s: %v\n", args[0], err)
		return 1, true
	}
	return 0, true
}
