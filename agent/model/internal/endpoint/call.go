package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// Call is one request to a [Server], in the format of the server's API.
type Call struct {
	Header http.Header // credentials and versions
	Body   any         // encoded as JSON
	Empty  bool        // the body has no message, which no API accepts
	Answer Answer
}

// Answer collects the events of an answer. Each request needs its own.
type Answer interface {
	// Add adds an event. It returns the text or thinking to show at once.
	Add(e Event) (agent.Chunk, error)
	// Complete reports whether the answer is complete. over is true if the stream has ended
	// or failed. Some servers end the stream without the API's last event.
	Complete(over bool) bool
	// Reply returns the answer, in which tools have the names of the request. wantsTools
	// reports that the model stopped to call tools.
	Reply() (reply *agent.Reply, wantsTools bool, err error)
	// Split converts an answer in the form of one JSON document into the events of a stream.
	// It returns false if the document is not an answer.
	Split(document json.RawMessage) ([]Event, bool)
	// Refusal decodes the error in a body. status is 0 if the response had a status of
	// success.
	Refusal(body []byte, status int) *StatusError
}

// Generate sends a request and yields the chunks of the answer, the reply last. After a
// failure, it calls again, if that is not nil, and sends the request that again returns.
func (s *Server) Generate(ctx context.Context, r agent.Request, c *Call, again func(error) *Call, yield func(agent.Chunk, error) bool) {
	x := &exchange{client: s.Client, idle: s.Idle, answer: c.Answer}
	err := s.send(ctx, x, r, c, yield)
	if err != nil && again != nil {
		if c = again(err); c != nil {
			x.answer = c.Answer
			err = s.send(ctx, x, r, c, yield)
		}
	}
	if err != nil {
		yield(agent.Chunk{}, s.failure(ctx, x, err))
	}
}

// send streams one answer. It returns nil if the consumer stopped.
func (s *Server) send(ctx context.Context, x *exchange, r agent.Request, c *Call, yield func(agent.Chunk, error) bool) error {
	if err := s.check(r, c); err != nil {
		return err
	}
	for e, err := range x.events(ctx, s.url, c.Header, c.Body) {
		if err != nil && x.began && !errors.Is(err, errTooLarge) {
			err = fmt.Errorf("%w: %w", ErrTruncated, err)
		}
		var chunk agent.Chunk
		if err == nil {
			chunk, err = c.Answer.Add(e)
		}
		if c.Answer.Complete(err != nil) {
			break
		}
		if err != nil {
			return err
		}
		if chunk != (agent.Chunk{}) && !yield(chunk, nil) {
			return nil
		}
	}
	if !c.Answer.Complete(true) {
		return ErrTruncated
	}
	reply, wantsTools, err := c.Answer.Reply()
	if err == nil {
		err = checkReply(reply, wantsTools, r.Messages)
	}
	if err != nil {
		return err
	}
	restoreNames(reply, r.Tools)
	yield(agent.Chunk{Reply: reply}, nil)
	return nil
}

// check returns an error for a request that no server would answer.
func (s *Server) check(r agent.Request, c *Call) error {
	for _, t := range r.Tools {
		if len(t.Schema) > 0 && !json.Valid(t.Schema) {
			return fmt.Errorf("tool %s: %w", t.Name, errSchema)
		}
	}
	switch {
	case s.err != nil:
		return s.err
	case s.Key == "" && s.Token == "":
		return errNoKey
	case c.Empty:
		return errNoMessage
	}
	return nil
}

// checkReply returns an error for an answer that the agent could not use. After tool results,
// an empty answer is valid: the model has nothing to add.
func checkReply(reply *agent.Reply, wantsTools bool, asked []agent.Message) error {
	afterResults := len(asked) > 0 && asked[len(asked)-1].Role == agent.ToolRole
	switch {
	case len(reply.Message.Calls()) > 0 || reply.Stop == agent.StopLength || reply.Stop == agent.StopRefusal:
		return nil
	case wantsTools:
		return errNoCalls
	case strings.TrimSpace(reply.Message.Text()) == "" && !afterResults:
		return errEmpty
	}
	return nil
}

// restoreNames replaces the tools' names of the request in the calls by the names in the
// program.
func restoreNames(reply *agent.Reply, tools []agent.ToolSpec) {
	names := map[string]string{}
	for _, t := range tools {
		names[ToolName(t.Name)] = t.Name
	}
	for _, p := range reply.Message.Parts {
		if p.Call != nil {
			p.Call.Name = cmp.Or(names[p.Call.Name], p.Call.Name)
		}
	}
}

var (
	// ErrTruncated is the error for an answer that ended too early.
	ErrTruncated = errors.New("the answer was truncated")

	errEmpty     = errors.New("the answer is empty")
	errNoCalls   = errors.New("the answer announces tool calls and has none")
	errNoKey     = errors.New("no API key")
	errNoMessage = errors.New("the conversation has no text to send")
	errSchema    = errors.New("the schema is not valid JSON")
	errRedirect  = errors.New("the server redirects the request to another server")
	errPage      = errors.New("answered with an HTML page, not with the API")
	errTooLarge  = fmt.Errorf("the answer is larger than %d MB", maxStream>>20)
	errIdle      = errors.New("the server sent nothing for too long")
)
