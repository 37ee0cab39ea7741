package redis_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	goredis "github.com/redis/go-redis/v9"
)

// logged collects what go-redis logs.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

// TestNothingIsLogged opens stores on a server that refuses connections, on one that closes
// them, and on a real one. go-redis must write nothing to the log of the process, and errors
// must reach the caller.
func TestNothingIsLogged(t *testing.T) {
	log := &logged{}
	goredis.SetLogger(log)
	defer goredis.SetLogger(quiet{})
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepts sync.WaitGroup
	accepts.Go(func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	for name, addr := range map[string]string{"refuses": refusing.Addr().String(), "closes": closing.Addr().String()} {
		s, err := redis.Open(t.Context(), "redis://"+addr, redis.Options{})
		if segno.KindOf(err) != segno.KindIO {
			t.Errorf("%s: error %v, want %s", name, err, segno.KindIO)
		}
		if err == nil {
			s.Close()
		}
	}
	closing.Close()
	accepts.Wait()
	s := open(t, redis.Options{Prefix: newPrefix()})
	if _, err := s.Head(t.Context(), "none"); segno.KindOf(err) != segno.KindNotFound {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, line := range log.lines {
		t.Errorf("logged: %s", line)
	}
}
