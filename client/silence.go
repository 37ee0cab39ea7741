package client

import (
	"context"
	"io"
	"sync"
	"time"
)

// How long a server may be silent within a request: it neither accepts nor sends a byte. A move may write many files before its
// response, and only the response shows whether the move was made.
const (
	maxSilence     = 2 * time.Minute
	maxMoveSilence = 30 * time.Minute
)

// silentError is the error of a request if the server was silent for too long.
type silentError struct{ limit time.Duration }

func (e silentError) Error() string {
	return "the server accepted the connection, and then neither accepted nor sent a byte for " + e.limit.String()
}

// silence ends a request if its server is silent for too long. It counts only the time in which the request waits for the server, and not the
// time in which the caller works on the response. The whole request may take any time.
type silence struct {
	limit  time.Duration
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	answered bool // the response has begun, so a late read of the body must not start the timer
}

// watchSilence returns a context that ends with a silentError if the server is silent for longer than limit. The caller calls stop.
func watchSilence(ctx context.Context, limit time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{limit: limit, cancel: cancel}
	s.timer = time.AfterFunc(limit, func() { cancel(silentError{limit}) })
	return ctx, s
}

// moved is called when the server has accepted a part of the request.
func (s *silence) moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		s.timer.Reset(s.limit)
	}
}

// answer is called when the response has begun.
func (s *silence) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	s.timer.Stop()
}

// stop releases the resources of the request.
func (s *silence) stop() {
	s.answer()
	s.cancel(nil)
}

// sentBody is the body of a request.
type sentBody struct {
	io.Reader
	silence *silence
}

func (b sentBody) Read(p []byte) (int, error) {
	b.silence.moved()
	return b.Reader.Read(p)
}

// receivedBody is the body of a response.
type receivedBody struct {
	io.ReadCloser
	ctx     context.Context
	silence *silence
}

// Read returns a silentError if the server sends nothing for too long.
func (b receivedBody) Read(p []byte) (int, error) {
	b.silence.timer.Reset(b.silence.limit)
	n, err := b.ReadCloser.Read(p)
	b.silence.timer.Stop()
	return n, withSilence(b.ctx, err)
}

func (b receivedBody) Close() error {
	defer b.silence.stop()
	return b.ReadCloser.Close()
}

// withSilence returns err, or the silentError that ended the context of the request before.
func withSilence(ctx context.Context, err error) error {
	if silent, ok := context.Cause(ctx).(silentError); ok && err != nil && err != io.EOF {
		return silent
	}
	return err
}
