package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/search"
	"github.com/dalsegno/segno/transcript"
)

// Config configures a [Server].
type Config struct {
	Store segno.Store
	// Local is Store if that is a store on this machine, else nil. If it is nil, the server has no
	// workspaces, and moves change only pointers.
	Local   *local.Store
	Kind    string // "sqlite", "postgres", "redis" or "file"
	Name    string // of the store, for a person; it has no password
	Version string // of segno
	Dir     string // the command's directory, whose thread the page shows first; may be ""
	Runs    string // the directory of the runs of experiments; may be "", and need not exist
	// Token is from NewToken. It allows everything except writing into the store.
	Token string
	// Tokens are further tokens with their scopes. If it is nil, no client can write into the store.
	Tokens *Tokens
	// Public is the address at which a proxy or a forwarded port serves this server, or nil.
	Public *url.URL
	Share  Share // nil if turns cannot be shared
	Demo   Demo  // nil if the server makes no demo
	Fleet  Fleet // nil if no workers run the threads of the store
	// Arriving, if not nil, is called with each commit of another machine before it is made. Its objects are in the store.
	Arriving func(ctx context.Context, thread segno.ThreadID, commits []segno.Commit) error
	Now      func() time.Time // nil is time.Now

	searchTime, indexTime time.Duration // 0 means the constants
}

// Server serves the API and the page of one store. The caller closes the store after Serve.
type Server struct {
	Config
	guard     guard
	listener  net.Listener
	mux       *http.ServeMux
	slots     chan struct{} // bounds the concurrent requests
	closing   chan struct{} // closed when the server begins to end; ends the streams
	heavy     chan struct{} // bounds the requests that need much memory
	searches  chan struct{} // bounds the searches
	index     *search.Index // of the store, from the first search on
	histories historyCache
	previews  previews
	presents  presentTrees
	forks     forkIndex
	open      *openTurns // nil without Local
	hub       *hub
	demos     sync.Mutex // serializes the making of demos
	launch    launch
	uploads   chan struct{} // bounds the bodies that are received at once
	// largeCommits bounds the large commits among them.
	largeCommits chan struct{}
	receives     map[string]bool // the routes that read their body themselves

	comparisons *lru[treePair, []segno.Change]
	diffs       *lru[diffKey, *lineDiff]
	counts      *lru[segno.CommitID, counts]
	usages      *lru[segno.CommitID, []transcript.Usage]
}

// maxRequests is the number of requests that the server handles at once. Further ones wait.
const maxRequests = 16

// The limits of requests that need much memory, and of the results that are kept.
const (
	maxHeavy       = 2
	maxComparisons = 200_000 // changes
	maxDiffBytes   = 64 << 20
)

// New returns a server for a listener.
func New(c Config, l net.Listener) *Server {
	s := &Server{Config: c, guard: newGuard(l.Addr(), c.Public, c.Token, c.Tokens), listener: l, mux: http.NewServeMux(),
		uploads: make(chan struct{}, maxUploads), largeCommits: make(chan struct{}, 1), receives: map[string]bool{},
		slots: make(chan struct{}, maxRequests), closing: make(chan struct{}),
		heavy: make(chan struct{}, maxHeavy), searches: make(chan struct{}, 1), comparisons: newLRU[treePair, []segno.Change](maxComparisons),
		diffs: newLRU[diffKey, *lineDiff](maxDiffBytes), counts: newLRU[segno.CommitID, counts](maxCounts),
		usages: newLRU[segno.CommitID, []transcript.Usage](maxUsages)}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.histories.open = map[segno.ThreadID]*threadHistory{}
	if s.Local != nil {
		s.open = newOpenTurns(s.Local.Spool(), s.Now)
	}
	s.hub = newHub(s)
	for _, e := range routes() {
		s.receives[e.method+" "+e.path] = e.body != ""
		s.mux.HandleFunc(e.method+" "+apiRoot+e.path, func(w http.ResponseWriter, r *http.Request) {
			if err := e.serve(s, w, r); err != nil {
				writeProblem(w, r, err)
			}
		})
	}
	return s
}

// apiRoot is the prefix of the API's paths.
const apiRoot = "/api/v1"

// The longest times of the parts of a request.
const (
	headerTimeout  = 10 * time.Second
	bodyTimeout    = 30 * time.Second
	requestTimeout = 10 * time.Minute // until the response is written
	writeTimeout   = time.Minute      // for a response that is complete in memory
	idleTimeout    = 2 * time.Minute
	endTimeout     = 10 * time.Second // for the requests under way when the server ends
)

// Serve answers requests until ctx ends. It then ends the streams and waits for the other requests,
// so that a move under way can finish.
func (s *Server) Serve(ctx context.Context) error {
	requests := context.WithoutCancel(ctx)
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    log.New(io.Discard, "", 0)} // it would have only errors of clients
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	select {
	case err := <-served:
		close(s.closing)
		return segno.NewError(segno.KindIO, "serve", s.listener.Addr().String(), err)
	case <-ctx.Done():
	}
	close(s.closing)
	end, cancel := context.WithTimeout(requests, endTimeout)
	defer cancel()
	err := server.Shutdown(end)
	if err != nil {
		err = errors.Join(err, server.Close())
	} else if s.index != nil { // no request is left that reads it
		err = s.index.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return segno.Errorf(segno.KindBusy, "serve", "", "a request did not end within %s", endTimeout)
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(requestTimeout)) // a recorder has no deadlines
	setPolicy(w.Header(), dataPolicy)
	if err := s.route(w, r); err != nil {
		if statusOf(err) == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		writeProblem(w, r, err)
	}
}

// route checks a request and gives it to its handler.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	isAPI := strings.HasPrefix(r.URL.Path, "/api/")
	if err := s.guard.checkSite(r, !isAPI); err != nil {
		return err
	}
	if !isAPI {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			return errMethod(r)
		}
		if strings.HasPrefix(r.URL.Path, launchPath) && r.Method == http.MethodGet {
			return s.serveLaunch(w, r)
		}
		return s.servePage(w, r)
	}
	granted, err := s.guard.checkToken(r)
	if err != nil {
		return err
	}
	handler, pattern := s.mux.Handler(r)
	if pattern == "" {
		return noRoute(w, r, handler)
	}
	method, path, _ := strings.Cut(pattern, " ")
	route := method + " " + strings.TrimPrefix(path, apiRoot)
	if err := granted.require(routeScopes[route]); err != nil {
		return err
	}
	r = r.WithContext(withScopes(r.Context(), granted))
	if !s.receives[route] {
		if err := receiveBody(w, r); err != nil {
			return err
		}
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	if !strings.HasSuffix(pattern, "/events") && !strings.HasSuffix(pattern, "/raw/wait") {
		release, err := acquire(r.Context(), s.slots)
		if err != nil {
			return err
		}
		defer release()
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// noRoute returns the error for a request without a route. handler is the mux's own handler for it,
// which distinguishes an unknown path from a wrong method.
func noRoute(w http.ResponseWriter, r *http.Request, handler http.Handler) error {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", answer.Header().Get("Allow"))
		return errMethod(r)
	}
	return segno.NewError(segno.KindNotFound, "find route", r.URL.Path, nil)
}

func errMethod(r *http.Request) error {
	return withStatus(http.StatusMethodNotAllowed, segno.Errorf(segno.KindInvalid, "find route", r.URL.Path, "it has no method %s", r.Method))
}

// receiveBody reads the whole body of a request. It removes the deadline for the body, because
// net/http would cancel the request at that time.
func receiveBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // a recorder has no deadlines
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return errTooLarge(tooLarge.Limit)
	}
	if err != nil {
		return segno.NewError(segno.KindInvalid, "read request", "", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

func errTooLarge(limit int64) error {
	return withStatus(http.StatusRequestEntityTooLarge, segno.Errorf(segno.KindInvalid, "read request", "", "the body is longer than %d bytes", limit))
}
