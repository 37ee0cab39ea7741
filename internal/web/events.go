package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
)

// threadEvent tells a client that a thread changed.
type threadEvent struct {
	Thread   segno.ThreadID `json:"thread"`
	Head     segno.CommitID `json:"head"`
	Tip      segno.CommitID `json:"tip"`
	Revision int64          `json:"revision"`
	Total    int            `json:"total"` // rows of its timeline, -1 if this server has not read the timeline
	State    string         `json:"state"` // as in the list of threads, or "deleted"
}

// stateDeleted is the state of a thread that is deleted.
const stateDeleted = "deleted"

// keepAlive is the interval at which the server writes a comment to an idle stream, so that
// proxies keep the stream open.
const keepAlive = 15 * time.Second

// streamTimeout is the time that a client may take to read an event.
const streamTimeout = 30 * time.Second

// streamEvents writes events until the client or the server ends. A client that reads slowly gets
// the newest event of each thread.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, _ *struct{}) error {
	if r.Method == http.MethodHead {
		return nil
	}
	sub, err := s.hub.subscribe(r.Context())
	if err != nil {
		return err
	}
	defer s.hub.unsubscribe(sub)
	select {
	case <-sub.begun: // the client reads the state after it has seen hello, and a later change must reach it
	case <-s.closing:
		return nil
	case <-r.Context().Done():
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	out := eventWriter{w, http.NewResponseController(w)}
	if out.write("retry: 2000\nevent: hello\ndata: {\"version\":%q}\n\n", s.Version) != nil {
		return nil // the client is gone
	}
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		var events []threadEvent // none to keep the stream alive
		select {
		case <-s.closing:
			return nil
		case <-r.Context().Done():
			return nil
		case <-ticker.C:
		case <-sub.ready:
			events = sub.take()
		}
		if !s.mayRead(r) || out.writeEvents(events) != nil {
			return nil // the token was removed, or the client is gone
		}
	}
}

// mayRead reports whether the token of a request still allows to read. A stream can be open for days, and the user can remove its
// token meanwhile.
func (s *Server) mayRead(r *http.Request) bool {
	granted, err := s.guard.checkToken(r)
	return err == nil && granted.require(ScopeRead) == nil
}

// eventWriter writes to a stream, each time with a deadline.
type eventWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (e eventWriter) write(format string, args ...any) error {
	// The read deadline for the request's body would end the stream. Ignore errors, because the
	// recorder of a test has no deadlines.
	_ = e.control.SetReadDeadline(time.Time{})
	_ = e.control.SetWriteDeadline(time.Now().Add(streamTimeout))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// writeEvents writes events, or a comment if there are none.
func (e eventWriter) writeEvents(events []threadEvent) error {
	if len(events) == 0 {
		return e.write(": keep-alive\n\n")
	}
	for _, x := range events {
		data, err := json.Marshal(x)
		if err == nil {
			err = e.write("event: thread\ndata: %s\n\n", data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// event describes a thread for the streams.
func (s *Server) event(ctx context.Context, id segno.ThreadID, now *activity) (threadEvent, error) {
	e := threadEvent{Thread: id, Total: -1, State: now.state(id)}
	head, err := s.Store.Head(ctx, id)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		e.State = stateDeleted
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Head, e.Tip, e.Revision = head.Head, head.Tip, head.Seq
	if s.histories.get(id) == nil {
		return e, nil
	}
	h, err := s.history(ctx, id)
	if isDamage(err) {
		return e, nil // the client reads the timeline again, and receives the error
	}
	if err != nil {
		return e, err
	}
	e.Total, e.Revision = len(h.shown), h.revision
	return e, nil
}
