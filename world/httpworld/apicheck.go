package httpworld

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/worldcheck"
)

// checkAPI is the name of the check of properties that only HTTP shows.
const checkAPI = "API"

// runAPICheck checks the answers that agents get from a world, beyond what the methods of [segno.World] show: no header
// has the time of the host, and only the operator can move time and read the state.
func runAPICheck(ctx context.Context, start func(context.Context) (*World, error), act json.RawMessage) error {
	w, err := start(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	const session = "session of Ada"
	if err := w.Join(ctx, session, "Ada"); err != nil {
		return err
	}
	advance, err := json.Marshal(advanceRequest{Seconds: segno.SimTime(w.info.Tick)})
	if err != nil {
		return err
	}
	before, err := w.Snapshot(ctx)
	if err != nil {
		return err
	}
	own := w.process.client
	for _, q := range []struct {
		path           string
		session, token string
		body           []byte
		forbidden      bool
	}{
		{path: "/api.md"}, {path: "/join", session: session, body: []byte(`{"name":"Ada"}`)}, {path: "/observe", session: session},
		{path: "/observe", session: "unknown"}, {path: "/act", session: "unknown", body: act}, {path: "/nothing", session: session},
		{path: "/snapshot", token: own.token},
		{path: "/snapshot", session: session, forbidden: true}, {path: "/snapshot", session: session, token: "another", forbidden: true},
		{path: "/advance", session: session, body: advance, forbidden: true}, {path: "/advance", body: advance, forbidden: true},
		{path: "/advance", session: session, token: "another", body: advance, forbidden: true},
		{path: "/advance", session: session, token: own.token + "x", body: advance, forbidden: true},
	} {
		method := http.MethodGet
		if q.body != nil {
			method = http.MethodPost
		}
		answer, err := own.send(ctx, method, q.path, q.session, q.token, q.body)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if name, value := hostTimeHeader(answer.Header, time.Now()); name != "" {
			return fmt.Errorf("the answer to %s has a header with the time of the host, which agents can read: %s: %s", q.path, name, value)
		}
		if q.forbidden && answer.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("%s answers %d without the operator's token, not 401: an agent could call it", q.path, answer.StatusCode)
		}
	}
	after, err := w.Snapshot(ctx)
	if err == nil && !bytes.Equal(before.Document, after.Document) {
		err = fmt.Errorf("requests without the operator's token changed the state:\n%s\n%s", before.Document, after.Document)
	}
	return err
}

// hostTimeHeader returns a header that contains the time of the host, or "".
func hostTimeHeader(h http.Header, now time.Time) (name, value string) {
	for name, values := range h {
		for _, value := range values {
			if at, err := http.ParseTime(value); err == nil && at.Sub(now).Abs() < time.Hour || name == "Date" || worldcheck.HostTime(value, now) != "" {
				return name, value
			}
		}
	}
	return "", ""
}
