package s3

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newClockServer returns a server of an empty bucket. It rejects a signature with another time than that of its clock.
func newClockServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil {
			t.Error(err)
		}
		if now := time.Now(); signed.Before(now.Add(-15*time.Minute)) || signed.After(now.Add(15*time.Minute)) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<Error><Code>RequestTimeTooSkewed</Code></Error>")
			return
		}
		io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}))
	t.Cleanup(s.Close)
	return s
}

// TestAClockThatIsSet verifies that a bucket works on after the clock of the machine was set: first it was wrong, and the bucket took
// the server's time; then it is right.
func TestAClockThatIsSet(t *testing.T) {
	var wrong atomic.Int64
	o := faultOptions()
	o.Clock = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	wrong.Store(int64(-3 * time.Hour))
	b := open(t, bucketURL(newClockServer(t).URL, "test"), o)
	for _, w := range []time.Duration{0, 26 * time.Hour, 0} {
		wrong.Store(int64(w))
		for _, err := range b.List(t.Context(), "") {
			t.Errorf("with a clock that is %v wrong: %v", w, err)
		}
	}
}

// TestAWrongClockOfManyRequests sends several requests at once after a user has set the clock of the machine wrong.
func TestAWrongClockOfManyRequests(t *testing.T) {
	var wrong atomic.Int64
	o := faultOptions()
	o.Clock = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	b := open(t, bucketURL(newClockServer(t).URL, "test"), o)
	wrong.Store(int64(3 * time.Hour))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, err := range b.List(t.Context(), "") {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
