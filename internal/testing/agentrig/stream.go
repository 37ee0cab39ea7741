package agentrig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// Event is one JSON line of the stream-json output.
type Event struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	Raw     json.RawMessage `json:"-"` // the whole line
	Outcome                 // of a result
}

// Stream is an agent that reads prompts as JSON lines and continues to run between them.
type Stream struct {
	*Process
	stdin  io.WriteCloser
	stderr bytes.Buffer

	mu      sync.Mutex
	events  []Event
	ended   bool
	changed chan struct{} // closed and replaced whenever events or ended change
	next    int           // the first event that Result has not checked
	asked   int           // control requests sent
}

// Stream starts the agent in stream-json mode. The agent prints nothing before the first
// [Stream.Send].
func (r *Rig) Stream(ctx context.Context, args ...string) (*Stream, error) {
	args = slices.Concat([]string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"}, r.Flags, args)
	cmd := r.command(ctx, args...)
	s := &Stream{changed: make(chan struct{})}
	cmd.Stderr = &s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("agentrig: piping prompts: %w", err)
	}
	out, in := io.Pipe()
	cmd.Stdout = in
	s.stdin = stdin
	if s.Process, err = start(cmd); err != nil {
		return nil, err
	}
	go func() {
		<-s.Exited()
		in.Close()
	}()
	go s.read(out)
	return s, nil
}

func (s *Stream) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		e := Event{Raw: bytes.TrimSpace(line)}
		_ = json.Unmarshal(line, &e) // a line that is not JSON has no type
		s.mu.Lock()
		if len(e.Raw) > 0 {
			s.events = append(s.events, e)
		}
		s.ended = err != nil
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send sends the agent a prompt without waiting for its end.
func (s *Stream) Send(prompt string) error {
	return s.SendJSON(map[string]any{
		"type":    "user",
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": prompt}}},
	})
}

// Interrupt asks the agent to stop the turn, as the SDK's interrupt does.
func (s *Stream) Interrupt() error {
	s.asked++
	return s.SendJSON(map[string]any{
		"type": "control_request", "request_id": "rig-" + strconv.Itoa(s.asked),
		"request": map[string]any{"subtype": "interrupt"},
	})
}

// SendJSON sends the agent a line of the input protocol.
func (s *Stream) SendJSON(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("agentrig: encoding an input line: %w", err)
	}
	if _, err := s.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("agentrig: writing to the agent: %w", err)
	}
	return nil
}

// Turn sends a prompt and returns the result that ends its turn.
func (s *Stream) Turn(ctx context.Context, prompt string) (Outcome, error) {
	if err := s.Send(prompt); err != nil {
		return Outcome{}, err
	}
	return s.Result(ctx)
}

// Result returns the next result that no earlier call returned.
func (s *Stream) Result(ctx context.Context) (Outcome, error) {
	e, at, err := s.wait(ctx, s.next, func(e Event) bool { return e.Type == "result" })
	s.next = at
	return e.Outcome, err
}

// WaitFor returns the first past or future event that ok accepts.
func (s *Stream) WaitFor(ctx context.Context, ok func(Event) bool) (Event, error) {
	e, _, err := s.wait(ctx, 0, ok)
	return e, err
}

// Events returns the events that the agent has sent so far.
func (s *Stream) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *Stream) wait(ctx context.Context, from int, ok func(Event) bool) (Event, int, error) {
	for {
		s.mu.Lock()
		fresh, ended, changed := s.events[from:], s.ended, s.changed
		s.mu.Unlock()
		for i, e := range fresh {
			if ok(e) {
				return e, from + i + 1, nil
			}
		}
		from += len(fresh)
		if ended {
			return Event{}, from, fmt.Errorf("agentrig: the agent ended after %d events: %s", from, s.stderr.String())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, from, fmt.Errorf("agentrig: waiting for an event (%d seen): %w", from, ctx.Err())
		}
	}
}

// Close ends the input, which ends the agent, and returns its exit code.
func (s *Stream) Close(ctx context.Context) (int, error) {
	if err := s.stdin.Close(); err != nil {
		return 0, fmt.Errorf("agentrig: closing the agent's input: %w", err)
	}
	return s.Wait(ctx)
}
