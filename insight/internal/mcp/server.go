// Package mcp serves the history of a directory to agents over the Model Context Protocol. Each tool that reads runs a verb of
// the command in this process, and its structured result is what the verb prints with --json. The tools that move use
// package internal/history/moves, as the HTTP API does.
//
// A client cannot choose the store, the workspace or the thread: they are those of the directory in which the server runs.
// All input of a client is untrusted. Every result is cut to a limit.
package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// Options choose the tools of a server.
type Options struct {
	AllowMoves bool // also those that move
}

// The limits of what a client sends, in bytes: one message, one text, and the name of the client.
const (
	maxMessage = 1 << 20
	maxText    = 4 << 10
	maxActor   = 64
)

const instructions = `segno keeps a checkpoint of every turn of an agent in this directory: the conversation, the files and what tools did.
Checkpoints are named t1, t2, … (turns), @ (the present head), @- (the one before it) or by the first letters of their id.`

// server has the tools of one process.
type server struct{ app *cli.App }

// Serve answers one client over in and out, until the client closes in or ctx ends.
func Serve(ctx context.Context, app *cli.App, in io.ReadCloser, out io.WriteCloser, o Options) error {
	s := &server{app}
	m := mcp.NewServer(&mcp.Implementation{Name: "segno", Version: app.BuildVersion()},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}})
	s.addReads(m)
	if o.AllowMoves {
		s.addMoves(m)
	}
	answers := &lineWriter{WriteCloser: out}
	lines := newLineReader(in, answers)
	m.AddReceivingMiddleware(lines.watchVersion)
	err := m.Run(ctx, &mcp.IOTransport{Reader: lines, Writer: answers, MaxLineLength: maxMessage})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case lines.bad != nil && !lines.isKnown: // a user typed something
		return segno.NewError(segno.KindInvalid, "read message", "", lines.bad).WithHint("an agent starts 'segno mcp', and sends a JSON-RPC message on each line")
	}
	return nil
}

// call is one call of a tool. app works on the thread of the turn in which the agent calls, or on that of the directory.
type call struct {
	app   *cli.App
	d     *cli.Workspace
	actor string
	own   *timeline.OpenTurn // the turn in which the agent calls, or nil if that is not known
}

// begin opens the store and the workspace for a call.
func (s *server) begin(ctx context.Context, req *mcp.CallToolRequest) (c *call, err error) {
	c = &call{app: s.app.Again(), actor: actorOf(req.ClientInfo())}
	c.app.Directory, c.app.StorePath, c.app.ThreadName = s.app.Directory, s.app.StorePath, s.app.ThreadName
	c.d, err = c.app.Open(ctx)
	if segno.KindOf(err) == segno.KindNotFound && c.app.ThreadName == "" { // its hint lists threads of other directories
		return nil, segno.Errorf(segno.KindNotFound, "find workspace", "", "nothing is recorded in this directory yet").
			WithHint("the user runs 'segno enable' with the name of the agent, or 'segno save', here")
	}
	if err != nil {
		return nil, err
	}
	if c.own, err = ownTurn(ctx, c.d); err != nil {
		c.d.Close()
		return nil, err
	}
	if c.app.ThreadName == "" && c.own != nil {
		c.app.ThreadName = string(c.own.Thread)
	}
	return c, nil
}

// ownTurn returns the newest open turn of the workspace whose agent started this process, or nil.
func ownTurn(ctx context.Context, d *cli.Workspace) (own *timeline.OpenTurn, err error) {
	turns, err := d.Timeline.Spool.Turns(ctx)
	ancestors := slices.Collect(proc.Ancestors(os.Getpid()))
	for _, t := range turns {
		if t.Workspace == d.Rec.ID && !t.InBackground() && slices.Contains(ancestors, t.PID) && proc.Alive(t.PID, t.PIDStart) {
			own = &t
		}
	}
	return own, err
}

// actorOf returns the name of a client as the actor of an operation. A client cannot take the name of a part of segno.
func actorOf(client *mcp.Implementation) string {
	if client == nil {
		return segno.ActorMCP
	}
	name := strings.TrimSpace(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, client.Name))
	reserved := []string{segno.ActorCommand, segno.ActorPage, segno.ActorHTTP, segno.ActorGo, segno.ActorACP, segno.ActorChat}
	if name = name[:min(len(name), maxActor)]; name == "" || slices.Contains(reserved, name) {
		return segno.ActorMCP
	}
	return name
}

// failed returns an error as a result that the model reads: what --json prints about it.
func (s *server) failed(err error) (*mcp.CallToolResult, any, error) {
	fields := s.app.ErrorFields(err)
	text := "error: " + fields["error"].(string)
	if hint := fields["hint"].(string); hint != "" {
		text += "\nhint: " + hint
	}
	res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: cutText(text, maxResultText)}}}
	return res, fields, nil
}

// checkTexts returns an error if a text of a client is too long, or has a zero byte.
func checkTexts(texts ...string) error {
	for _, text := range texts {
		switch {
		case len(text) > maxText:
			return segno.Errorf(segno.KindInvalid, "read arguments", "", "a text has %d bytes, and at most %d are allowed", len(text), maxText)
		case strings.Contains(text, "\x00"):
			return segno.Errorf(segno.KindInvalid, "read arguments", segno.QuotePath(text), "it has a zero byte")
		}
	}
	return nil
}

// checkNames is checkTexts for names of checkpoints and paths. A name that begins with a hyphen would be a flag of a verb.
func checkNames(names ...string) error {
	for _, name := range names {
		if strings.HasPrefix(name, "-") {
			return segno.Errorf(segno.KindInvalid, "read arguments", segno.QuotePath(name), "it begins with a hyphen").WithHint("name a path as ./-x")
		}
	}
	return checkTexts(names...)
}

// noAgent has no conversations of segno's own agent: their commands and approvals are for the user.
type noAgent struct{}

func (noAgent) Command(segno.Thread, ...string) []string { return nil }

func (noAgent) Decide(context.Context, segno.Thread, *timeline.Timeline, string, segno.Decision) error {
	return segno.Errorf(segno.KindRefused, "decide", "", "an agent cannot approve a call")
}
