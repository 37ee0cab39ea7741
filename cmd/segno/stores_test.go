package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/postgres"
)

// server is the PostgreSQL server of all tests.
var server *serverrig.Server

// asCommand is the environment variable that makes the test binary act as the command.
const asCommand = "SEGNO_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		return
	}
	var err error
	if server, err = serverrig.Postgres(context.Background(), "", serverrig.PostgresNoSync()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := serverrig.PostgresPrograms(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// create creates a thread in a store.
func create(t *testing.T, s segno.Store, err error) {
	t.Helper()
	if err == nil {
		defer s.Close()
		_, err = s.Commit(t.Context(), segno.Commit{ID: "c", Thread: "thread", Create: &segno.Thread{ID: "thread"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenPostgres(t *testing.T) {
	if _, err := openPostgres(t.Context(), server.URL, ""); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a database without a store: %v", err)
	}
	if _, err := openPostgres(t.Context(), server.URL, ""); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a store was created: %v", err)
	}
	t.Cleanup(func() { (&project{TB: t}).admin("DROP SCHEMA IF EXISTS segno CASCADE") })
	s, err := postgres.Open(t.Context(), server.URL, postgres.Options{})
	create(t, s, err)
	opened, err := openPostgres(t.Context(), server.URL, "")
	if err == nil {
		defer opened.Close()
		_, err = opened.Head(t.Context(), "thread")
	}
	if err != nil {
		t.Error(err)
	}
}

func TestOpenRedis(t *testing.T) {
	server, err := serverrig.Redis(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	s, err := openRedis(t.Context(), server.URL, "")
	create(t, s, err)
	opened, err := openRedis(t.Context(), server.URL, "")
	if err == nil {
		defer opened.Close()
		_, err = opened.Head(t.Context(), "thread")
	}
	if err != nil {
		t.Error(err)
	}
}

func TestErrorsHaveNoPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://joe:pa55word@127.0.0.1:1/agents",
		"postgres://127.0.0.1:1/agents?user=joe&password=pa55word",
		"postgres://joe:pa55word@127.0.0.1:port/agents",
		"postgres://joe:pa55word%zz@127.0.0.1:1/agents",
		"postgres://joe:pa55/word@127.0.0.1:1/agents",
		"postgres://joe:5#pa55word@127.0.0.1:1/agents",
		"postgres://127.0.0.1:1/agents?password=pa55word&sslmode=none",
		strings.Replace(server.URL, "/postgres?", "/none?password=pa55word&", 1),
		"redis://joe:pa55word@127.0.0.1:1/0",
		"redis://joe:pa55word@127.0.0.1:1/database",
		"redis://joe:pa55/word@127.0.0.1:1/0",
	} {
		open := openPostgres
		if strings.HasPrefix(url, "redis") {
			open = openRedis
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // without a deadline, both retry for seconds
		defer cancel()
		s, err := open(ctx, url, "")
		if err == nil {
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
