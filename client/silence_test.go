package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// TestSilentServer uses servers that stop to answer, each at another point. Every call ends with an error, and no call ends early.
func TestSilentServer(t *testing.T) {
	const begun = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	large := bytes.Repeat([]byte("x"), inlineBytes)
	threads := func(ctx context.Context, s *Store) error {
		for _, err := range s.Threads(ctx, segno.ThreadQuery{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	head := func(ctx context.Context, s *Store) error { _, err := s.Head(ctx, "t"); return err }
	for name, c := range map[string]struct {
		serve func(net.Conn)
		call  func(context.Context, *Store) error
		limit time.Duration
	}{
		"accepts only":               {func(net.Conn) {}, head, maxSilence},
		"reads, and does not answer": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, head, maxSilence},
		"stops within the header":    {answering(begun[:20]), head, maxSilence},
		"stops within an answer":     {answering(begun + `{"head"`), head, maxSilence},
		"stops within a list":        {answering(begun + `{"id":"t"`), threads, maxSilence},
		"stops reading": {func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 1000)) }, func(ctx context.Context, s *Store) error {
			return s.Objects().Keep(ctx, segno.Staged{Objects: []segno.Object{{Name: segno.HashOf(large), Data: large}}})
		}, maxSilence},
		"does not answer a move": {answering(""), func(ctx context.Context, s *Store) error { _, err := s.Apply(ctx, "plan", "key", false); return err }, maxMoveSilence},
		"does not answer a commit": {answering(""), func(ctx context.Context, s *Store) error {
			_, err := s.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t"})
			return err
		}, maxSilence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := piped(t, c.serve)
				began := time.Now()
				err := c.call(t.Context(), s)
				if took := time.Since(began); segno.KindOf(err) != segno.KindIO || took != c.limit {
					t.Fatalf("after %v: %v", took, err)
				}
				if !strings.Contains(err.Error(), c.limit.String()) || segno.HintOf(err) == "" {
					t.Errorf("the error is %q, with the hint %q", err, segno.HintOf(err))
				}
			})
		})
	}
}

// TestSlowServer sends a list with pauses that are shorter than the limit, and longer together. The caller works longer than the limit
// on each element. The list arrives.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := piped(t, func(c net.Conn) {
			if !readRequest(c) {
				return
			}
			for _, part := range []string{"HTTP/1.1 200 OK\r\n\r\n", `{"id":"a",`, `"record":""}` + "\n", `{"id":"b"`, `,"record":""}` + "\n", `{"end":true}` + "\n"} {
				time.Sleep(maxSilence - time.Second)
				if _, err := io.WriteString(c, part); err != nil {
					return
				}
			}
			c.Close()
		})
		var ids []string
		for id, err := range list(t.Context(), s, "list", "", "/list", nil, func(i *wire.Item) (string, error) { return i.ID, nil }) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			time.Sleep(2 * maxSilence)
		}
		if strings.Join(ids, " ") != "a b" {
			t.Errorf("the list is %q", ids)
		}
	})
}

// TestCancelledCallOfSilentServer cancels a call before the limit. The error is that of the cancellation.
func TestCancelledCallOfSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := piped(t, answering(""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Head(ctx, "t"); segno.KindOf(err) != segno.KindCancelled {
			t.Errorf("the error is %v", err)
		}
	})
}

// piped returns a store that reaches serve through pipes.
func piped(t *testing.T, serve func(net.Conn)) *Store {
	t.Helper()
	s, err := New("http://server", "token")
	if err != nil {
		t.Fatal(err)
	}
	var ends []net.Conn
	transport := s.http.Transport.(*http.Transport)
	transport.Proxy = nil
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		ends = append(ends, near, far)
		go serve(far)
		return near, nil
	}
	t.Cleanup(func() {
		for _, c := range ends {
			c.Close()
		}
		s.Close()
	})
	return s
}

// answering returns a server that reads a request, writes a part of a response, and then neither reads nor writes.
func answering(part string) func(net.Conn) {
	return func(c net.Conn) {
		if readRequest(c) {
			_, _ = io.WriteString(c, part)
		}
	}
}

// readRequest reads a request with its body.
func readRequest(c net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err == nil || errors.Is(err, io.EOF)
}
