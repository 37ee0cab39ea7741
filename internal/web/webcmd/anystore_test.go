package webcmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/sqlite"
)

func TestStoresOfAnyKind(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	commit := func(s segno.Store, err error) {
		t.Helper()
		if err == nil {
			_, err = s.Commit(t.Context(), segno.Commit{ID: "c", Thread: "thread", Create: &segno.Thread{ID: "thread"},
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fileStore, err := file.Open(t.Context(), at("files"), file.Options{})
	commit(fileStore, err)
	sqliteStore, err := sqlite.Open(t.Context(), at("agent.db"), sqlite.Options{})
	commit(sqliteStore, err)
	a := &app{cli.New(cli.Env{Getenv: func(string) string { return "" }, Getwd: func() (string, error) { return dir, nil }}, nil)}
	a.StorePath = at("own")
	own, err := a.OpenOrMakeStore(t.Context())
	commit(own, err)
	write("empty.db", "")
	write("text", "no store")
	a.Stores = map[string]func(context.Context, string, string) (segno.Store, error){
		"postgresql": func(ctx context.Context, _, _ string) (segno.Store, error) { // any store will do
			return file.Open(ctx, at("files"), file.Options{})
		},
	}
	for _, x := range []struct{ store, kind, name, fails string }{
		{store: at("own"), kind: "sqlite", name: at("own")},
		{store: "own/segno.db", kind: "sqlite", name: at("own")},
		{store: "agent.db", kind: "sqlite", name: at("agent.db")},
		{store: "files", kind: "file", name: at("files")},
		{store: "file://" + at("files"), kind: "file", name: at("files")},
		{store: "file://localhost" + at("files"), kind: "file", name: at("files")},
		{store: "postgresql://joe:pa55word@db.example:5432/agents?password=pa55word", kind: "postgres", name: "postgresql://joe@db.example:5432/agents"},
		{store: "empty.db", fails: "the file is not a store"},
		{store: "text", fails: "the file is not a store"},
		{store: "none", fails: "does not exist"},
		{store: "file://" + at("none"), fails: "does not exist"},
		{store: "file://" + at("own"), fails: "does not exist"},
		{store: "file://elsewhere/files", fails: "names no directory of this machine"},
		{store: "file:", fails: "names no directory of this machine"},
		{store: "mysql://joe:pa55word@db.example/agents", fails: `mysql://joe@db.example/agents: unknown kind of store "mysql"`},
		{store: "mysql://joe:pa55/word@db.example/agents", fails: "mysql://…: unknown kind"},
		{store: "mysql://joe:5#pa55word@db.example/agents", fails: "mysql://…: unknown kind"},
		{store: "mysql://joe:pa55word%zz@db.example/agents", fails: "mysql://…: unknown kind"},
	} {
		a.StorePath = x.store
		s, err := a.openAnyStore(t.Context())
		if x.fails != "" {
			if err == nil || !strings.Contains(err.Error(), x.fails) || strings.Contains(err.Error(), "pa55") {
				t.Errorf("%s: %v; want %s", x.store, err, x.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.store, err)
			continue
		}
		if s.Kind != x.kind || s.Name != x.name || (s.Local != nil) != (x.name == at("own")) {
			t.Errorf("%s: is the %s store %s, local %t", x.store, s.Kind, s.Name, s.Local != nil)
		}
		if _, err := s.Head(t.Context(), "thread"); err != nil {
			t.Errorf("%s: %v", x.store, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", x.store, err)
		}
	}
	if data, err := os.ReadFile(at("empty.db")); err != nil || len(data) > 0 {
		t.Errorf("the empty file became %d bytes, %v", len(data), err)
	}
	a.BucketURL = "s3://agents?secret=pa55word"
	for _, store := range []string{"", at("own"), "file://" + at("files"), "redis://db.example/0"} {
		a.StorePath = store
		if _, err := a.openAnyStore(t.Context()); segno.KindOf(err) != segno.KindInvalid || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s with a bucket: %v", store, err)
		}
	}
	a.StorePath = "postgres://joe:pa55word@db.example/agents"
	if _, err := a.OpenStore(t.Context()); err == nil || !strings.Contains(err.Error(), "postgres://joe@db.example/agents: this command needs a store in a directory") {
		t.Errorf("a verb that needs a directory: %v", err)
	}
}
