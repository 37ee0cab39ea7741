package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/internal/web/wire"
	"github.com/dalsegno/segno/store/sqlite"
)

func TestHostileServer(t *testing.T) {
	item, err := segno.Encode(wire.NewThread(segno.Thread{ID: "t"}))
	if err != nil {
		t.Fatal(err)
	}
	node, err := segno.Encode(wire.NewNode(segno.Node{ID: "other", Thread: "t"}))
	if err != nil {
		t.Fatal(err)
	}
	thread, answer := string(item)+"\n", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }))
	defer server.Close()
	s, err := client.New(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	threads := func() error {
		for _, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	head := func() error { _, err := s.Head(t.Context(), "t"); return err }
	object := func() error { _, err := s.Objects().Get(t.Context(), segno.HashOf([]byte("a"))); return err }
	line := func() error { _, err := s.Load(t.Context(), "commit", segno.Window{}); return err }
	for _, x := range []struct {
		what, answer string
		call         func() error
		kind         segno.Kind
	}{
		{"an empty list", "", threads, segno.KindIO},
		{"a list without an end", thread, threads, segno.KindIO},
		{"half a line", `{"id":"t","rec`, threads, segno.KindIO},
		{"a page", "<html>", threads, segno.KindIO},
		{"a damaged record", `{"id":"t","record":"////"}` + "\n" + `{"end":true}`, threads, segno.KindCorrupt},
		{"a list that ends with an error", thread + `{"problem":{"kind":"corrupt","detail":"it is damaged"}}`, threads, segno.KindCorrupt},
		{"a page", "<html>", head, segno.KindIO},
		{"a head with a damaged link", `{"thread":"t","link":"////"}`, head, segno.KindCorrupt},
		{"other bytes", "b", object, segno.KindCorrupt},
		{"a line without a commit", `{"end":true}`, line, segno.KindCorrupt},
		{"a line to another commit", string(node) + "\n" + `{"end":true}`, line, segno.KindCorrupt},
	} {
		answer = x.answer
		if err := x.call(); segno.KindOf(err) != x.kind {
			t.Errorf("%s is %v of kind %v, not %v", x.what, err, segno.KindOf(err), x.kind)
		}
	}
	server.Close()
	if err := head(); segno.KindOf(err) != segno.KindIO || segno.HintOf(err) == "" {
		t.Errorf("without a server the error is %v", err)
	}
}

func TestRefused(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	address, token, stop := serve(t, web.Config{Store: db, Kind: "sqlite"})
	defer stop()
	for _, address := range []string{"", "127.0.0.1:80", "ftp://host", "http://", "http://%"} {
		if _, err := client.New(address, "x"); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("the address %q is accepted: %v", address, err)
		}
	}
	wrong, err := client.New(address, "wrong")
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	_, err = wrong.Head(t.Context(), "t")
	if err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token returns %v", err)
	}
	if has, err := wrong.Objects().Has(t.Context(), segno.Hash{1}); has || segno.KindOf(err) != segno.KindRefused {
		t.Errorf("a wrong token finds %v, %v", has, err)
	}
	s, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(ctx context.Context) error{
		"delete":        func(ctx context.Context) error { return s.Delete(ctx, "t") },
		"put workspace": func(ctx context.Context) error { return s.PutWorkspace(ctx, segno.WorkspaceRecord{}) },
	}
	for what, call := range calls {
		if err := call(t.Context()); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("%s returns %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, call := range calls {
		if err := call(t.Context()); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("after Close %s returns %v", what, err)
		}
	}
}

// TestTypes compares the types of this package with those of the server: a field that only one of them
// has is lost.
func TestTypes(t *testing.T) {
	fields := func(of reflect.Type) (all []string) {
		for i := range of.NumField() {
			f := of.Field(i)
			all = append(all, fmt.Sprint(f.Name, " ", f.Tag.Get("json"), " ", f.Type.Kind()))
		}
		return all
	}
	for _, x := range [][2]reflect.Type{
		{reflect.TypeFor[client.Move](), reflect.TypeFor[moves.Request]()},
		{reflect.TypeFor[client.Change](), reflect.TypeFor[history.Change]()},
		{reflect.TypeFor[client.Unwritten](), reflect.TypeFor[moves.UnwrittenPath]()},
		{reflect.TypeFor[client.Session](), reflect.TypeFor[moves.PreviewSession]()},
		{reflect.TypeFor[client.Outcome](), reflect.TypeFor[moves.Outcome]()},
		{reflect.TypeFor[client.Totals](), reflect.TypeFor[moves.Totals]()},
		{reflect.TypeFor[client.Fork](), reflect.TypeFor[moves.ForkedThread]()},
	} {
		if got, want := fields(x[0]), fields(x[1]); !reflect.DeepEqual(got, want) {
			t.Errorf("%v has the fields\n%s\nand %v has\n%s", x[0], strings.Join(got, "\n"), x[1], strings.Join(want, "\n"))
		}
	}
	preview := fields(reflect.TypeFor[client.Preview]())
	if got, want := preview[1:len(preview)-1], fields(reflect.TypeFor[moves.Preview]()); !reflect.DeepEqual(got, want) {
		t.Errorf("a preview has the fields\n%s\nand the server's has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
