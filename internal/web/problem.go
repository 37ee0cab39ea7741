package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// statusError is an error with an HTTP status other than the one of its kind.
type statusError struct {
	status int
	error
}

func (e *statusError) Unwrap() error { return e.error }

func withStatus(status int, err error) error { return &statusError{status, err} }

// statuses has the HTTP status for each kind of error. Other kinds have 500.
var statuses = [...]struct {
	kind   segno.Kind
	status int
}{
	{segno.KindInvalid, http.StatusBadRequest}, {segno.KindNotFound, http.StatusNotFound}, {segno.KindConflict, http.StatusConflict},
	{segno.KindPartial, http.StatusConflict}, {segno.KindRefused, http.StatusForbidden}, {segno.KindBusy, http.StatusLocked},
	{segno.KindFenced, http.StatusLocked}, {segno.KindNewer, http.StatusNotImplemented}, {segno.KindCancelled, http.StatusServiceUnavailable},
}

func statusOf(err error) int {
	if s := (*statusError)(nil); errors.As(err, &s) {
		return s.status
	}
	for _, x := range statuses {
		if x.kind == segno.KindOf(err) {
			return x.status
		}
	}
	return http.StatusInternalServerError
}

// newProblem describes an error for a client.
func newProblem(err error) *wire.Problem {
	status := statusOf(err)
	kind := segno.KindOf(err)
	if kind == segno.KindInternal && status < http.StatusInternalServerError {
		kind = segno.KindInvalid
	}
	name, _ := kind.MarshalText() // never fails
	p := &wire.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Kind: string(name),
		Detail: strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "), Hint: segno.HintOf(err)}
	if conflict := (*segno.ConflictError)(nil); errors.As(err, &conflict) {
		head := wire.NewHead(conflict.Actual)
		p.Head = &head
	}
	return p
}

// writeProblem writes an error response. The caller must not have written any of the response.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := newProblem(err)
	h := w.Header()
	h.Del("ETag")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(p) // the client is gone
	}
}
