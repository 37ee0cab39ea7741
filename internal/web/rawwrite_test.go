package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// slowUpload is a connection whose reads take a time, which it measures with its own clock.
type slowUpload struct {
	http.ResponseWriter
	clock, deadline time.Time
	read            int // bytes that a read returns
	takes           time.Duration
}

func (u *slowUpload) now() time.Time { return u.clock }

func (u *slowUpload) SetReadDeadline(t time.Time) error {
	u.deadline = t
	return nil
}

func (u *slowUpload) Read([]byte) (int, error) {
	u.clock = u.clock.Add(u.takes)
	return u.read, nil
}

// TestAnUploadMakesProgress checks that a client that sends a byte now and then loses its place, and that a slow one and one
// that waits for the server keep theirs.
func TestAnUploadMakesProgress(t *testing.T) {
	for _, x := range []struct {
		what     string
		read     int
		takes    time.Duration
		between  time.Duration // that the server needs before the next read
		isInTime bool
	}{
		{"a byte before each deadline", 1, bodyTimeout - time.Second, 0, false},
		{"less than the lowest rate", minRate - 1, 2 * time.Second, 0, false},
		{"the lowest rate", minRate, time.Second, 0, true},
		{"large reads with pauses", 64 << 10, bodyTimeout / 2, 0, true},
		{"a slow server", 1, 0, bodyTimeout, true},
	} {
		u := &slowUpload{ResponseWriter: httptest.NewRecorder(), clock: time.Unix(0, 0), read: x.read, takes: x.takes}
		b := &patientBody{u, http.NewResponseController(u), u.now, bodyTimeout}
		isInTime := true
		for range 100 {
			if n, err := b.Read(nil); n != x.read || err != nil {
				t.Fatal(n, err)
			}
			isInTime = isInTime && !u.clock.After(u.deadline)
			u.clock = u.clock.Add(x.between)
		}
		if isInTime != x.isInTime {
			t.Errorf("%s: in time is %v", x.what, isInTime)
		}
	}
}

// endlessText is a body of JSON that never ends. It counts what the server reads of it.
type endlessText struct{ read int64 }

func (e *endlessText) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte("A"), len(p)))
	e.read += int64(n)
	return n, nil
}

// rawCommitOf sends a commit of a size to a server, and returns the error and how much of the body was read.
func rawCommitOf(ctx context.Context, s *Server, size int64) (err error, read int64) {
	body := &endlessText{}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/raw/commit", io.MultiReader(strings.NewReader(`{"entries":"`), body))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = size
	return s.rawCommit(httptest.NewRecorder(), r), body.read
}

// TestACommitHasALimit sends a commit that is too large. The server must refuse it before it reads it.
func TestACommitHasALimit(t *testing.T) {
	err, read := rawCommitOf(t.Context(), newScopeRig(t).Server, wire.MaxCommit+1)
	if segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), "the body is longer than 67108864 bytes") {
		t.Errorf("the error is %v", err)
	}
	if read > 0 {
		t.Errorf("the server read %d bytes", read)
	}
}

// TestLargeCommitsAreReceivedOneAfterTheOther sends commits while a large one is received. A second large one waits, before
// any of it is read.
func TestLargeCommitsAreReceivedOneAfterTheOther(t *testing.T) {
	s := newScopeRig(t).Server
	release, err := acquire(t.Context(), s.largeCommits)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err, read := rawCommitOf(ctx, s, smallCommit+1); segno.KindOf(err) != segno.KindCancelled || read > 0 {
		t.Errorf("a second large commit: %v, %d bytes were read", err, read)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/raw/commit", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if err := s.rawCommit(httptest.NewRecorder(), r); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a small commit: %v", err)
	}
}
