package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// fault is what a proxy does with a request instead of forwarding it.
type fault string

const (
	none            fault = ""
	refused         fault = "500"                 // the server fails before it does anything
	busy            fault = "503"                 // the server wants fewer requests
	lost            fault = "lost answer"         // the server does it, and the answer is lost
	lostAfterStatus fault = "truncated answer"    // the connection ends within the answer
	answerChanged   fault = "damaged answer"      // a byte of the answer differs
	requestChanged  fault = "damaged request"     // a byte of the request differs
	stalled         fault = "no answer"           // until the client gives up
	noCondition     fault = "501 for a condition" // the server has no conditional writes
)

var transientFaults = []fault{refused, busy, lost, lostAfterStatus, answerChanged, requestChanged}

// proxy forwards requests to the gateway. next returns the fault for each.
type proxy struct {
	*httptest.Server
	requests atomic.Int64
}

func newProxy(t *testing.T, next func(r *http.Request) fault) *proxy {
	t.Helper()
	p := &proxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		p.serve(t, w, r, next(r))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) serve(t *testing.T, w http.ResponseWriter, r *http.Request, f fault) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	switch {
	case f == refused:
		http.Error(w, "<html>the server fails</html>", http.StatusInternalServerError)
		return
	case f == busy:
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
		return
	case f == stalled:
		<-r.Context().Done()
		return
	case f == noCondition && r.Header.Get("If-None-Match") != "":
		w.WriteHeader(http.StatusNotImplemented)
		io.WriteString(w, "<Error><Code>NotImplemented</Code></Error>")
		return
	case f == requestChanged && len(body) > 0:
		body[len(body)/2] ^= 1
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+gateway.Addr+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header, req.Host = r.Header.Clone(), r.Host // the host is signed
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the connection ends
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || f == lost {
		panic(http.ErrAbortHandler)
	}
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	if f == answerChanged && len(answer) > 0 {
		answer[len(answer)/2] ^= 1
	}
	w.WriteHeader(res.StatusCode)
	if f == lostAfterStatus {
		w.Write(answer[:len(answer)/2])
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}
	w.Write(answer)
}

// first returns a function that gives the first requests of a method these faults, and no other request any.
func first(method string, faults ...fault) func(*http.Request) fault {
	var mu sync.Mutex
	return func(r *http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != method || r.URL.Query().Has("list-type") || len(faults) == 0 {
			return none
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}
}

func faultOptions() Options {
	o := testOptions()
	o.pause = time.Millisecond
	return o
}

// TestFaultsOfPut verifies that a put survives each fault, that the object has the bytes, and that a lost acknowledgement is
// not taken for another writer's object.
func TestFaultsOfPut(t *testing.T) {
	if !hasGateway() {
		return
	}
	for _, f := range transientFaults {
		t.Run(string(f), func(t *testing.T) {
			p := newProxy(t, first(http.MethodPut, f, f))
			b := open(t, bucketURL(p.URL, newPrefix()), faultOptions())
			data := []byte(strings.Repeat("data", 10_000))
			if err := b.Put(t.Context(), "segno/1", data); err != nil {
				t.Fatal(err)
			}
			if got, err := b.Get(t.Context(), "segno/1"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("Get returned %d bytes, %v", len(got), err)
			}
			if err := b.Put(t.Context(), "segno/1", []byte("other")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a second Put returned %v", err)
			}
		})
	}
}

// TestALostAnswerOfAnothersObject verifies that a put with a lost answer fails if the object is another writer's.
func TestALostAnswerOfAnothersObject(t *testing.T) {
	if !hasGateway() {
		return
	}
	p := newProxy(t, first(http.MethodPut, none, refused, lost))
	b := open(t, bucketURL(p.URL, newPrefix()), faultOptions())
	if err := b.Put(t.Context(), "segno/1", []byte("another's")); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "segno/1", []byte("mine")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Put returned %v", err)
	}
}

func TestFaultsOfGet(t *testing.T) {
	if !hasGateway() {
		return
	}
	for _, f := range transientFaults {
		t.Run(string(f), func(t *testing.T) {
			p := newProxy(t, first(http.MethodGet, f, f))
			b := open(t, bucketURL(p.URL, newPrefix()), faultOptions())
			data := []byte(strings.Repeat("data", 10_000))
			if err := b.Put(t.Context(), "segno/1", data); err != nil {
				t.Fatal(err)
			}
			if got, err := b.Get(t.Context(), "segno/1"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("Get returned %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestDamageInTheBucket verifies that an object whose stored bytes changed is damage, and not an answer.
func TestDamageInTheBucket(t *testing.T) {
	if !hasGateway() {
		return
	}
	p := newProxy(t, func(r *http.Request) fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/segno/1") {
			return answerChanged
		}
		return none
	})
	o := faultOptions()
	b := open(t, bucketURL(p.URL, newPrefix()), o)
	if err := b.Put(t.Context(), "segno/1", []byte("data")); err != nil {
		t.Fatal(err)
	}
	before := p.requests.Load()
	if data, err := b.Get(t.Context(), "segno/1"); segno.KindOf(err) != segno.KindCorrupt || data != nil {
		t.Errorf("Get returned %q, %v", data, err)
	}
	if n := p.requests.Load() - before; n != maxMismatches {
		t.Errorf("an object with a wrong checksum was requested %d times", n)
	}
}

// TestAStalledServer verifies that a call does not wait for a server that says nothing.
func TestAStalledServer(t *testing.T) {
	if !hasGateway() {
		return
	}
	p := newProxy(t, first(http.MethodPut, stalled))
	o := faultOptions()
	o.Idle = 300 * time.Millisecond
	b := open(t, bucketURL(p.URL, newPrefix()), o)
	if err := b.Put(t.Context(), "segno/1", []byte("data")); err != nil {
		t.Error(err)
	}
}

// TestRetriesAreBounded verifies that a call ends if the server never recovers, with the server's reason.
func TestRetriesAreBounded(t *testing.T) {
	if !hasGateway() {
		return
	}
	down := atomic.Bool{}
	p := newProxy(t, func(*http.Request) fault {
		if down.Load() {
			return busy
		}
		return none
	})
	o := faultOptions()
	b := open(t, bucketURL(p.URL, newPrefix()), o)
	down.Store(true)
	b.options.Patience = 20 * time.Millisecond
	for name, call := range map[string]func(context.Context) error{
		"put":    func(ctx context.Context) error { return b.Put(ctx, "segno/1", nil) },
		"get":    func(ctx context.Context) error { _, err := b.Get(ctx, "segno/1"); return err },
		"delete": func(ctx context.Context) error { return b.Delete(ctx, "segno/1") },
		"list": func(ctx context.Context) (err error) {
			for _, err = range b.List(ctx, "") {
			}
			return err
		},
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "SlowDown") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s returned %v", name, err)
		}
	}
	b.options.Patience = 5 * time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	before := p.requests.Load()
	go func() {
		for p.requests.Load() == before {
		}
		cancel()
	}()
	if err := b.Put(ctx, "segno/1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled put returned %v", err)
	}
}

// TestAServerWithoutConditions verifies that a put overwrites nothing on a server that has no conditional writes.
func TestAServerWithoutConditions(t *testing.T) {
	if !hasGateway() {
		return
	}
	p := newProxy(t, func(*http.Request) fault { return noCondition })
	b := open(t, bucketURL(p.URL, newPrefix()), faultOptions())
	for range 2 {
		err := b.Put(t.Context(), "segno/1", []byte("first"))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := b.Put(t.Context(), "segno/1", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Put of a name that exists returned %v", err)
	}
	if data, err := b.Get(t.Context(), "segno/1"); err != nil || string(data) != "first" {
		t.Errorf("Get returned %q, %v", data, err)
	}
}

// TestAWrongClock verifies that a machine whose clock is wrong can use the bucket: the gateway rejects its signatures, and the
// bucket takes the gateway's time.
func TestAWrongClock(t *testing.T) {
	if !hasGateway() {
		return
	}
	for _, wrong := range []time.Duration{-26 * time.Hour, 3 * time.Hour} {
		o := faultOptions()
		o.Clock = func() time.Time { return time.Now().Add(wrong) }
		b := open(t, bucketURL("http://"+gateway.Addr, newPrefix()), o)
		if b.skew.Load() == 0 {
			t.Errorf("the gateway accepted a clock that is %v wrong", wrong)
		}
		if err := b.Put(t.Context(), "segno/1", []byte("data")); err != nil {
			t.Error(err)
		}
	}
}

// TestRandomFaults compares a bucket behind a proxy with random faults with a map. No call has as many damaged answers that
// its object counts as damaged.
func TestRandomFaults(t *testing.T) {
	if !hasGateway() {
		return
	}
	for _, seed := range soak.Seeds(t, 2, 400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			damaged := 0 // answers since a request without a fault, which ends a call
			p := newProxy(t, func(*http.Request) fault {
				mu.Lock()
				defer mu.Unlock()
				f := none
				if draw.IntN(3) == 0 {
					f = transientFaults[draw.IntN(len(transientFaults))]
				}
				switch {
				case f == none:
					damaged = 0
				case f == answerChanged && damaged == maxMismatches-1:
					return busy
				case f == answerChanged:
					damaged++
				}
				return f
			})
			o := faultOptions()
			o.page = 3
			runRandom(t, open(t, bucketURL(p.URL, newPrefix()), o), draw)
		})
	}
}

// runRandom makes random calls and compares their results with those of a map.
func runRandom(t *testing.T, b *Bucket, draw *rand.Rand) {
	want := map[string]string{}
	for n := range 40 {
		name := fmt.Sprintf("segno/%d/%d", draw.IntN(2), draw.IntN(6))
		_, exists := want[name]
		switch draw.IntN(4) {
		case 0, 1:
			data := strings.Repeat(fmt.Sprint(n), draw.IntN(5000)+1)
			if err := b.Put(t.Context(), name, []byte(data)); exists != errors.Is(err, fs.ErrExist) || err != nil && !exists {
				t.Fatalf("call %d: Put of %s, which exists: %v, returned %v", n, name, exists, err)
			}
			if !exists {
				want[name] = data
			}
		case 2:
			data, err := b.Get(t.Context(), name)
			if exists == errors.Is(err, fs.ErrNotExist) || err != nil && exists || string(data) != want[name] {
				t.Fatalf("call %d: Get of %s, which exists: %v, returned %.20q, %v", n, name, exists, data, err)
			}
		case 3:
			if err := b.Delete(t.Context(), name); err != nil {
				t.Fatalf("call %d: Delete of %s: %v", n, name, err)
			}
			delete(want, name)
		}
	}
	var names []string
	for name, err := range b.List(t.Context(), "segno/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if len(names) != len(want) || slices.ContainsFunc(names, func(name string) bool { _, ok := want[name]; return !ok }) {
		t.Errorf("List yields %q; want %d names", names, len(want))
	}
}

// TestAKilledGateway kills the gateway while objects are put. Each put succeeds in the end, and no acknowledged object is lost.
func TestAKilledGateway(t *testing.T) {
	if !hasGateway() {
		return
	}
	server, err := serverrig.S3(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	b := open(t, server.URL, faultOptions())
	const writers, each = 4, 20
	acknowledged := make(chan struct{}, writers*each)
	var wg sync.WaitGroup
	content := func(name string) []byte { return []byte(strings.Repeat(name, 3000)) }
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				name := fmt.Sprintf("segno/%d/%d", w, n)
				if err := b.Put(t.Context(), name, content(name)); err != nil {
					t.Errorf("Put of %s: %v", name, err)
				}
				acknowledged <- struct{}{}
			}
		})
	}
	for range soak.Count(t, 1, 5) {
		for range 10 {
			<-acknowledged
		}
		server.Kill()
		if err := server.Restart(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	for w := range writers {
		for n := range each {
			name := fmt.Sprintf("segno/%d/%d", w, n)
			if data, err := b.Get(t.Context(), name); err != nil || !bytes.Equal(data, content(name)) {
				t.Errorf("Get of %s returned %d bytes, %v", name, len(data), err)
			}
		}
	}
}
