// Package acptest serves tests of what stands between a client and an agent of the
// Agent Client Protocol: a scripted agent, a scripted client, and a tap that logs
// the bytes between two programs. It knows nothing of what is tested.
//
// A test binary becomes the agent, the agent's tool or the tap when its first
// argument says so and its TestMain calls [Main]:
//
//	if code, ran := acptest.Main(ctx, os.Args[1:], acptest.Standard()); ran {
//		os.Exit(code)
//	}
//
// so that the agent's command line is the test binary and what [Config.Args]
// returns.
//
// # Scripts
//
// A prompt scripts the agent's turn with a directive anywhere in its text,
//
//	<<acp [steps]>>
//
// a JSON array of steps; [Directive] writes one and [Step] says what there is. The
// agent has a model that knows nothing but what a real one would be sent: the
// session so far and the prompt ([Request]). It follows the newest directive in
// sight, in the session or in the prompt, and of that what is not yet done:
//
//   - a tool call whose line is said to be appended is done, whoever says it;
//   - of one whose line is only named, outside of directives, nobody knows whether
//     it was done: the model looks into the ledger, and makes the call if it is not
//     there;
//   - a text is done if it was said in this session since the directive;
//   - a fault is done when it struck as often as it says. That alone is remembered
//     outside of the conversation.
//
// So a prompt without a directive takes up again what was cut short, a new session
// that is told what happened goes on from there, and one that is told too little
// does things twice.
package acptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// The first arguments [Main] knows.
const (
	agentArg = "acptest-agent"
	toolArg  = "acptest-tool"
	tapArg   = "acptest-tap"
)

// Streams are a process's.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Standard are this process's streams.
func Standard() Streams { return Streams{os.Stdin, os.Stdout, os.Stderr} }

// Main runs what the arguments of a process ask for, if they do, and returns its
// exit code.
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
