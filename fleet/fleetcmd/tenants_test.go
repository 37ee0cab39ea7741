package fleetcmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/postgres"
)

// tenantServer is the web server of one tenant.
type tenantServer struct {
	*testing.T
	store  *Store
	server *web.Server
	host   string
	token  string
}

func newTenantServer(t *testing.T, database, tenant string) *tenantServer {
	t.Helper()
	opened, err := OpenStore(t.Context(), database+"?pool_max_conns=4&segno_tenant="+tenant, "")
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*Store)
	t.Cleanup(func() { s.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	token := web.NewToken()
	return &tenantServer{t, s, web.New(web.Config{Store: s, Kind: "postgres", Name: tenant, Token: token, Fleet: s.Mailboxes()}, l), l.Addr().String(), token}
}

// call returns the body of the answer to a request.
func (s *tenantServer) call(method, path, body string) string {
	s.Helper()
	r := httptest.NewRequest(method, "http://"+s.host+"/api/v1"+path, strings.NewReader(body)).WithContext(s.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized || w.Code >= http.StatusInternalServerError {
		s.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

// requests returns a request for each endpoint of the API, without the stream of events, which does not end. at is a checkpoint.
func (s *tenantServer) requests(at segno.CommitID) [][2]string {
	s.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal([]byte(s.call("GET", "/openapi.json", "")), &api); err != nil {
		s.Fatal(err)
	}
	values := map[string]string{"thread": "t", "at": string(at), "from": string(at), "to": string(at), "checkpoint": string(at), "workspace": "w",
		"path": "notes", "q": "secret", "part": "prompt", "format": "md", "key": "k", "name": "x", "hash": segno.HashOf(nil).String()}
	var all [][2]string
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for method, e := range api.Paths[path] {
			if path == "/events" {
				continue
			}
			filled, query := path, url.Values{}
			for _, p := range e.Parameters {
				value := values[p.Name]
				switch {
				case p.In == "path" && p.Name == "id" && strings.HasPrefix(path, "/threads"):
					filled = strings.ReplaceAll(filled, "{id}", "t")
				case p.In == "path" && p.Name == "id":
					filled = strings.ReplaceAll(filled, "{id}", string(at))
				case p.In == "path":
					filled = strings.ReplaceAll(filled, "{"+p.Name+"}", value)
				case p.In == "query" && p.Name == "q" && strings.HasPrefix(path, "/raw/"):
					query.Set("q", "{}")
				case p.In == "query" && value != "" && !(strings.HasSuffix(path, "/timeline") && p.Name == "from"):
					query.Set(p.Name, value)
				}
			}
			all = append(all, [2]string{strings.ToUpper(method), filled + "?" + query.Encode()})
		}
	}
	return all
}

// TestATenantsServerShowsNothingOfAnother sends a request to each endpoint of one tenant's server, for the ids of another tenant.
func TestATenantsServerShowsNothingOfAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are installed from the network")
	}
	ctx := t.Context()
	name := fmt.Sprintf("tenants_%d", databases.Add(1))
	super, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	for _, x := range []string{"CREATE ROLE " + name + " LOGIN", "CREATE DATABASE " + name + " OWNER " + name} {
		if _, err := super.Exec(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	database := fmt.Sprintf("postgres://%s@%s:%d/%s", name, super.Config().Host, super.Config().Port, name)
	owner, err := postgres.OpenOwner(ctx, database, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	for _, tenant := range []string{"a", "b"} {
		if err := owner.CreateTenant(ctx, tenant, "", nil); err != nil {
			t.Fatal(err)
		}
		opened, err := openFleet(ctx, database, "", tenant, nil) // makes the tables
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.close(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := newTenantServer(t, database, "a"), newTenantServer(t, database, "b")
	writer := agent.New(agent.Config{Name: "support", Model: offline.New(), Store: b.store})
	if _, err := writer.Run(ctx, agent.Input{Thread: "t", Prompt: "secret-b", Key: "k0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.fleet.Send(ctx, fleet.Prompt{Thread: "t", Agent: "support", Text: "secret-b", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	head, err := b.store.Head(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	dump, err := pgx.Connect(ctx, strings.Replace(database, name+"@", super.Config().User+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close(ctx)
	rows := func() (all string) {
		t.Helper()
		if err := dump.QueryRow(ctx, `SELECT concat((SELECT string_agg(p::text, ',' ORDER BY n) FROM segno.fleet_prompts p WHERE tenant = 'b'),
			(SELECT string_agg(x::text, ',' ORDER BY x.n) FROM segno.threads x JOIN segno.tenants t ON t.n = x.tenant WHERE t.name = 'b'),
			(SELECT string_agg(concat(id, state, args), ',' ORDER BY id) FROM segno.river_job WHERE queue = $1))`, fleet.QueueOf("b")).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before, shown := rows(), 0
	for _, x := range a.requests(head.Head) {
		method, path := x[0], x[1]
		body := "{}"
		switch {
		case strings.HasSuffix(path, "/prompts?") && method == "POST":
			body = `{"agent":"support","text":"hello"}`
		case strings.HasSuffix(path, "/signals?"):
			body = `{"name":"go"}`
		}
		if answer := a.call(method, path, body); strings.Contains(answer, "secret-b") {
			t.Errorf("%s %s shows %s", method, path, answer)
		}
		if method == "GET" && strings.Contains(b.call(method, path, ""), "secret-b") {
			shown++
		}
	}
	if after := rows(); after != before {
		t.Errorf("b changed from\n%s\nto\n%s", before, after)
	}
	if shown < 5 {
		t.Errorf("only %d endpoints show b's texts to b", shown)
	}
}
