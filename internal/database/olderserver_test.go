package database_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/testing/executable"
)

// olderServer is a server of PostgreSQL before version 17 with an empty database. It answers the queries that a save and a move need, and
// refuses the setting that it does not know.
type olderServer struct{ executed []string }

func (s *olderServer) Resolve(string) (database.PostgresTarget, error) {
	return database.PostgresTarget{Hosts: []string{"localhost"}, Port: 5432, User: "u", Database: "d"}, nil
}

func (s *olderServer) Connect(context.Context, string) (database.PostgresConn, error) { return s, nil }

func (s *olderServer) Close(context.Context) error { return nil }

func (s *olderServer) CopyTo(context.Context, io.Writer, string) error { return nil }

func (s *olderServer) CopyFrom(context.Context, io.Reader, string) error { return nil }

func (s *olderServer) Exec(_ context.Context, sql string) ([][]string, error) {
	// The server executes statements, and not the body of a function.
	settings, _, _ := strings.Cut(sql, "CREATE FUNCTION")
	if strings.Contains(settings, "SET transaction_timeout") {
		return nil, errors.New(`unrecognized configuration parameter "transaction_timeout"`)
	}
	s.executed = append(s.executed, sql)
	for part, row := range map[string][]string{
		"txid_current_snapshot":    {"a snapshot"},
		"pg_is_in_recovery":        {""},
		"pg_export_snapshot":       {"a snapshot", "f"},
		"SELECT string_agg(format": {""},
		"SELECT sum(n)":            {"1 2"},
		"standard public schema":   {"o", "t", "f", "t"},
	} {
		if strings.Contains(sql, part) {
			return [][]string{row}, nil
		}
	}
	return nil, nil
}

// dumpOf17 is what pg_dump 17 writes about any server.
const dumpOf17 = `--
-- PostgreSQL database dump
--

-- Dumped from database version 16.4
-- Dumped by pg_dump version 17.2

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';

--
-- Name: f(); Type: FUNCTION; Schema: public; Owner: u
--

CREATE FUNCTION public.f() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
SET transaction_timeout = 0;
RETURN NUMBER; END $$;
`

// TestAPgDumpThatIsNewerThanTheServer moves a database between two states that pg_dump 17 read from an older server. The export for psql
// contains no setting that the server does not know either. The body of a function stays as it is.
func TestAPgDumpThatIsNewerThanTheServer(t *testing.T) {
	f := newFixture(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := executable.Write(filepath.Join(bin, "pg_dump"), []byte("#!/bin/sh\ncase \"$*\" in *pre-data*) cat '"+filepath.Join(bin, "dump")+"' ;; esac\n")); err != nil {
		t.Fatal(err)
	}
	server := &olderServer{}
	w := database.Attach(&emptyTree{root: f.dir}, database.Options{Objects: f.objects, FS: f.fs, Lock: noLock, Postgres: server,
		List: func() ([]database.Attachment, error) {
			return []database.Attachment{{Name: "postgres://localhost/d", Kind: database.KindPostgres, URL: "postgres://localhost/d"}}, nil
		},
		Cache: database.Cache{FS: f.fs, Sealer: plainSealer{}, File: filepath.Join(f.dir, "no", "cache")}})
	save := func(number string) *segno.Snapshot {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, "dump"), []byte(strings.ReplaceAll(dumpOf17, "NUMBER", number)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := f.snapshot(w)
		if len(s.Unread) > 0 {
			t.Fatal(f.document(s))
		}
		return s
	}
	before, after := save("1"), save("2")
	server.executed = nil
	if why := f.move(w, after, before); why != "" {
		t.Fatal(why)
	}
	if all := strings.Join(server.executed, "\n"); !strings.Contains(all, "BEGIN\nSET transaction_timeout = 0;\nRETURN 1;") || !strings.Contains(all, "COMMIT") {
		t.Errorf("the server executed %s", all)
	}

	exports, err := database.Exports(t.Context(), f.objects, before.World)
	if err != nil || len(exports) != 1 {
		t.Fatal(exports, err)
	}
	var script strings.Builder
	if err := exports[0].Write(&script); err != nil {
		t.Fatal(err)
	}
	if settings, _, _ := strings.Cut(script.String(), "CREATE FUNCTION"); strings.Contains(settings, "SET transaction_timeout") || int64(script.Len()) != exports[0].Size {
		t.Errorf("the script for psql is\n%s", script.String())
	}
}
