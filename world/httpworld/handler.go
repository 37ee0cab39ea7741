package httpworld

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

const (
	headerSession = "X-Session"
	headerToken   = "X-Operator-Token"
	maxRequest    = 1 << 20
)

type joinRequest struct {
	Name string `json:"name"`
}

type advanceRequest struct {
	Seconds segno.SimTime `json:"seconds"`
}

// handler serves one world.
type handler struct {
	world segno.World
	token string
}

// NewHandler returns a handler that serves w over the API of this package. token is the operator's; it must
// not be empty. The handler refuses requests for other hosts and from pages of other hosts, so that a page
// in a browser cannot reach the world.
func NewHandler(w segno.World, token string) http.Handler {
	h := &handler{world: w, token: token}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api.md", h.manual)
	mux.HandleFunc("POST /join", h.join)
	mux.HandleFunc("GET /observe", h.observe)
	mux.HandleFunc("POST /act", h.act)
	mux.HandleFunc("GET /snapshot", h.operator(h.snapshot))
	mux.HandleFunc("POST /advance", h.operator(h.advance))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header()["Date"] = nil // agents must only see the time of the world
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		if !isLoopback(r.Host) || origin != "" && (err != nil || !isLoopback(u.Host)) {
			fail(out, http.StatusForbidden, "requests come from this machine only")
			return
		}
		mux.ServeHTTP(out, r)
	})
}

// isLoopback reports whether a host, perhaps with a port, is this machine.
func isLoopback(hostport string) bool {
	name, _, err := net.SplitHostPort(hostport)
	if err != nil {
		name = hostport
	}
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// operator passes on only requests that have the operator's token.
func (h *handler) operator(next http.HandlerFunc) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		if h.token == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get(headerToken)), []byte(h.token)) != 1 {
			fail(out, http.StatusUnauthorized, "the operator's token is needed")
			return
		}
		next(out, r)
	}
}

func (h *handler) manual(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	_, _ = io.WriteString(out, h.world.Info().Manual) // the client is gone if it fails
}

func (h *handler) join(out http.ResponseWriter, r *http.Request) {
	join, ok := readRequest[joinRequest](out, r)
	if !ok {
		return
	}
	reply(out, []byte("{}"), h.world.Join(r.Context(), r.Header.Get(headerSession), join.Name))
}

func (h *handler) observe(out http.ResponseWriter, r *http.Request) {
	o, err := h.world.Observe(r.Context(), r.Header.Get(headerSession))
	reply(out, o, err)
}

func (h *handler) act(out http.ResponseWriter, r *http.Request) {
	action, ok := readBody(out, r)
	if !ok {
		return
	}
	o, err := h.world.Act(r.Context(), r.Header.Get(headerSession), action)
	reply(out, o, err)
}

func (h *handler) snapshot(out http.ResponseWriter, r *http.Request) {
	s, err := h.world.Snapshot(r.Context())
	reply(out, s.Document, err)
}

func (h *handler) advance(out http.ResponseWriter, r *http.Request) {
	advance, ok := readRequest[advanceRequest](out, r)
	if !ok {
		return
	}
	reply(out, []byte("{}"), h.world.Advance(r.Context(), time.Duration(advance.Seconds)))
}

// readBody returns the body of a request. If the body is too large, it answers the request and returns false.
func readBody(out http.ResponseWriter, r *http.Request) ([]byte, bool) {
	data, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxRequest))
	if err != nil {
		fail(out, http.StatusRequestEntityTooLarge, "the request cannot be read or is too large")
		return nil, false
	}
	return data, true
}

// readRequest decodes the body of a request. If that fails, it answers the request and returns false.
func readRequest[T any](out http.ResponseWriter, r *http.Request) (v T, ok bool) {
	data, ok := readBody(out, r)
	if !ok {
		return v, false
	}
	v, err := world.DecodeAction[T](data)
	if err != nil {
		fail(out, http.StatusBadRequest, err.Error())
		return v, false
	}
	return v, true
}

// reply answers a request with JSON or with an error.
func reply(out http.ResponseWriter, data []byte, err error) {
	if err != nil {
		status, known := statuses()[segno.KindOf(err)]
		if !known {
			status = http.StatusInternalServerError
		}
		fail(out, status, err.Error())
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(data) // the client is gone if it fails
}

func fail(out http.ResponseWriter, status int, text string) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_ = json.NewEncoder(out).Encode(map[string]string{"error": text})
}
