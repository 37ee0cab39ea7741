package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
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
