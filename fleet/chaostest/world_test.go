package chaostest

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// event is a call of a worker: of its model, or of a tool with its effect.
type event struct {
	worker  string
	pid     int
	what    string
	id, key string
}

// world is a service beyond the fleet. It counts the effects of tools. It answers a call after the fault that is planned for it.
type world struct {
	url    string
	server *http.Server
	began  time.Time
	fault  func(n int, e event)

	mu      sync.Mutex
	calls   int
	charges map[string]map[string]bool // the keys by which each id was charged
	mails   map[string]int
	story   []string
}

func newWorld() (*world, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &world{url: "http://" + l.Addr().String() + "/", began: time.Now(), charges: map[string]map[string]bool{}, mails: map[string]int{}}
	w.server = &http.Server{Handler: w}
	go func() { _ = w.server.Serve(l) }()
	return w, nil
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf("%6.2f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// ServeHTTP implements [http.Handler].
func (w *world) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	pid, err := strconv.Atoi(q.Get("pid"))
	if err != nil {
		http.Error(to, err.Error(), http.StatusBadRequest)
		return
	}
	e := event{worker: q.Get("worker"), pid: pid, what: q.Get("what"), id: q.Get("id"), key: q.Get("key")}
	w.tell("%s: %s %s", e.worker, e.what, e.id)
	w.mu.Lock()
	n := w.calls
	w.calls++
	switch e.what {
	case "charge":
		if w.charges[e.id] == nil {
			w.charges[e.id] = map[string]bool{}
		}
		w.charges[e.id][e.key] = true
	case "mail":
		w.mails[e.id]++
	}
	w.mu.Unlock()
	w.fault(n, e)
}

func (w *world) isMailed(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mails[id] > 0
}
