package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
)

// Run runs another command line in this process, with the directory, store and thread of this one, and without a terminal. It
// returns the result that --json would print, and the text of the result, which is "" if the verb has none.
func (a *App) Run(ctx context.Context, args ...string) (result any, text string, err error) {
	again := a.Again()
	again.Stdin, again.Stdout, again.Stderr, again.pages = strings.NewReader(""), io.Discard, io.Discard, false
	again.capture = func(v any, write func(*Printer)) error {
		result = v
		var b bytes.Buffer
		p := again.Printer(&b)
		if write != nil {
			write(p)
		}
		text = b.String()
		return p.Err
	}
	root := again.Root()
	root.SetArgs(append([]string{"--json", "--directory=" + a.Directory, "--store=" + a.StorePath, "--thread=" + a.ThreadName}, args...))
	root.SetIn(again.Stdin)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	verb, err := root.ExecuteContextC(ctx)
	return result, text, withHelpHint(verb, err)
}
