package web_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
)

// request sends a request with headers. A header Host replaces the host. request returns the
// response and its body.
func (r *moveRig) request(method, path, body string, headers map[string]string) (reply, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, strings.TrimSuffix(r.address, "/api/v1")+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	for name, value := range headers {
		req.Header.Set(name, value)
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(req) // a redirect is an answer, too
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return reply{res.StatusCode, res.Header}, string(data)
}

// reply is a response without its body.
type reply struct {
	StatusCode int
	Header     http.Header
}

// get reads JSON into v.
func (r *moveRig) get(path string, v any) {
	r.Helper()
	res, body := r.request(http.MethodGet, "/api/v1"+path, "", nil)
	if res.StatusCode != http.StatusOK {
		r.Fatalf("GET %s: %d %s", path, res.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		r.Fatalf("GET %s: %v: %s", path, err, body)
	}
}

// rowItem is a row of a timeline, as a client reads it.
type rowItem struct {
	ID                           segno.CommitID
	Kind, Prompt                 string
	Index, Lane, Calls, Notes    int
	Turn                         int
	Head, Tip                    bool
	ParentIndex                  int  `json:"parent_index"`
	OnLine                       bool `json:"on_line"`
	Through, Joins               []int
	Forks, Operations, Positions []map[string]any
}

type timelineItem struct {
	Revision, Total, From int
	Items                 []rowItem
	Open                  *struct {
		Prompt  string
		Running bool
		Calls   []struct{ Tool, Title string }
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	r := newMoveRig(t)
	const api = "/api/v1"
	timeline := api + "/threads/" + string(r.thread) + "/timeline"
	origin := strings.TrimSuffix(r.address, api)
	long := `{"preview":"` + strings.Repeat("x", 2<<20) + `"}`
	asJSON := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k"}
	for _, x := range []struct {
		name, method, path, body string
		headers                  map[string]string
		status                   int
		kind                     string
	}{
		{"a rebound name", "GET", api + "/store", "", map[string]string{"Host": "evil.example"}, 403, "refused"},
		{"a rebound name with the port", "GET", "/", "", map[string]string{"Host": "evil.example:" + strings.Split(origin, ":")[2]}, 403, "refused"},
		{"another port", "GET", api + "/store", "", map[string]string{"Host": "127.0.0.1:1"}, 403, "refused"},
		{"another origin", "GET", api + "/store", "", map[string]string{"Origin": "https://evil.example"}, 403, "refused"},
		{"an opaque origin", "GET", api + "/store", "", map[string]string{"Origin": "null"}, 403, "refused"},
		{"another site", "GET", api + "/store", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "refused"},
		{"another port of this machine", "GET", api + "/store", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "refused"},
		{"a frame of another site", "GET", "/", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403, "refused"},
		{"a link of another site to the API", "GET", api + "/store", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403, "refused"},
		{"no token", "GET", api + "/store", "", map[string]string{"Authorization": ""}, 401, "refused"},
		{"a wrong token", "GET", api + "/store", "", map[string]string{"Authorization": "Bearer " + web.NewToken()}, 401, "refused"},
		{"half a token", "GET", api + "/store", "", map[string]string{"Authorization": "Bearer " + r.token[:20]}, 401, "refused"},
		{"another scheme", "GET", api + "/store", "", map[string]string{"Authorization": "Basic " + r.token}, 401, "refused"},
		{"the token in the address", "GET", api + "/store?token=" + r.token, "", map[string]string{"Authorization": ""}, 401, "refused"},
		{"a method", "DELETE", api + "/store", "", nil, 405, "invalid"},
		{"a method of the page", "POST", "/", "", nil, 405, "invalid"},
		{"a route", "GET", api + "/nope", "", nil, 404, "not_found"},
		{"a file of the page", "GET", "/nope.js", "", nil, 404, "not_found"},
		{"a path out of the page", "GET", "/../server.go", "", nil, 404, "not_found"},
		{"a parameter", "GET", timeline + "?form=1", "", nil, 400, "invalid"},
		{"a repeated parameter", "GET", timeline + "?n=1&n=2", "", nil, 400, "invalid"},
		{"no number", "GET", timeline + "?n=x", "", nil, 400, "invalid"},
		{"too many rows", "GET", timeline + "?n=201", "", nil, 400, "invalid"},
		{"a window beyond the end", "GET", timeline + "?from=99", "", nil, 400, "invalid"},
		{"a negative window", "GET", timeline + "?from=-1", "", nil, 400, "invalid"},
		{"around no checkpoint", "GET", timeline + "?around=nope", "", nil, 404, "not_found"},
		{"no thread", "GET", api + "/threads/nope", "", nil, 404, "not_found"},
		{"no checkpoint", "GET", api + "/checkpoints/nope", "", nil, 404, "not_found"},
		{"no launch code", "GET", "/launch/nope", "", nil, 404, "not_found"},
		{"a body that is a form", "POST", api + "/moves", "preview=1", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "k"}, 415, "invalid"},
		{"a body that is not JSON", "POST", api + "/moves", "{", asJSON, 400, "invalid"},
		{"two documents", "POST", api + "/moves", "{}{}", asJSON, 400, "invalid"},
		{"an unknown field", "POST", api + "/moves", `{"previwe":"x"}`, asJSON, 400, "invalid"},
		{"a body that is too large", "POST", api + "/moves", long, asJSON, 413, "invalid"},
	} {
		res, body := r.request(x.method, x.path, x.body, x.headers)
		var p struct {
			Status       int
			Kind, Detail string
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || res.StatusCode != x.status || p.Status != x.status || p.Kind != x.kind ||
			p.Detail == "" || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", x.name, res.StatusCode, body)
		}
		if strings.Contains(body, r.token) {
			t.Errorf("%s: the answer contains the token", x.name)
		}
	}
}

func TestRequestsThatAreAllowed(t *testing.T) {
	r := newMoveRig(t)
	origin := strings.TrimSuffix(r.address, "/api/v1")
	port := strings.Split(origin, ":")[2]
	for _, x := range []struct {
		path    string
		headers map[string]string
	}{
		{"/api/v1/store", map[string]string{"Origin": origin, "Sec-Fetch-Site": "same-origin"}},
		{"/api/v1/store", map[string]string{"Host": "LocalHost:" + port, "Origin": "http://localhost:" + port}},
		{"/api/v1/store", map[string]string{"Authorization": "bearer " + r.token}},
		{"/", map[string]string{"Authorization": "", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}},
	} {
		res, body := r.request("GET", x.path, "", x.headers)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %v: %d %s", x.path, x.headers, res.StatusCode, body)
		}
	}
	res, _ := r.request("GET", "/", "", nil)
	policy := res.Header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
		res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the headers of the page: %v", res.Header)
	}
}

func TestALaunchAddressWorksOnce(t *testing.T) {
	r := newMoveRig(t)
	path := strings.TrimPrefix(r.server.LaunchURL(), r.server.URL())
	res, _ := r.request("HEAD", path, "", nil)
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD: %d", res.StatusCode)
	}
	res, _ = r.request("GET", path, "", map[string]string{"Authorization": ""})
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/#"+r.token {
		t.Errorf("first: %d %v", res.StatusCode, res.Header)
	}
	res, _ = r.request("GET", path, "", map[string]string{"Authorization": ""})
	if res.StatusCode != http.StatusNotFound || res.Header.Get("Location") != "" {
		t.Errorf("second: %d %v", res.StatusCode, res.Header)
	}
}

func TestReads(t *testing.T) {
	r := newMoveRig(t)
	var list struct {
		Threads []struct {
			ID    segno.ThreadID
			Title string
			Turns int
			State string
			Dir   string
		}
	}
	r.get("/threads", &list)
	if len(list.Threads) != 1 || list.Threads[0].ID != r.thread || list.Threads[0].Turns != 3 || list.Threads[0].State != "idle" || list.Threads[0].Dir != r.project {
		t.Errorf("threads: %+v", list)
	}
	line := r.timelineOf("")
	if line.Total != 4 || len(line.Items) != 4 || line.Items[3].ID != r.turns[2].ID || !line.Items[3].Head || line.Items[3].ParentIndex != 2 || line.Items[0].ParentIndex != -1 {
		t.Errorf("timeline: %+v", line)
	}
	if w := r.timelineOf("?around=" + string(r.turns[0].ID) + "&n=2"); len(w.Items) != 2 || w.From > 1 || w.From+1 < 1 {
		t.Errorf("around turn 1: %+v", w)
	}
	var d struct {
		PromptBytes int `json:"prompt_bytes_total"`
		Changes     []struct{ Path, Sign string }
	}
	r.get("/checkpoints/"+string(r.turns[1].ID), &d)
	if d.PromptBytes != len("prompt 2") || len(d.Changes) != 2 || d.Changes[0].Path != "a.txt" || d.Changes[0].Sign != "~" {
		t.Errorf("turn 2: %+v", d)
	}
	var diff struct {
		Kind           string
		Added, Removed int
		Lines          []json.RawMessage
	}
	r.get(fmt.Sprintf("/diff?from=%s&to=%s&path=a.txt", r.turns[0].ID, r.turns[1].ID), &diff)
	if diff.Kind != "text" || diff.Added != 1 || diff.Removed != 1 {
		t.Errorf("diff: %+v", diff)
	}
	r.write("new.txt", "new")
	var changes struct{ Changes []struct{ Path, Sign string } }
	r.get(fmt.Sprintf("/changes?from=%s&to=present", r.turns[2].ID), &changes)
	if len(changes.Changes) != 1 || changes.Changes[0].Path != "new.txt" {
		t.Errorf("the present: %+v", changes)
	}
	var found struct {
		Hits     []struct{ Field, Match string }
		Complete bool
	}
	r.get("/search?q=PROMPT+2", &found)
	if len(found.Hits) != 1 || found.Hits[0].Match != "prompt 2" || !found.Complete {
		t.Errorf("search: %+v", found)
	}
	var store struct{ Kind string }
	r.get("/store", &store)
	if store.Kind != "sqlite" {
		t.Errorf("store: %+v", store)
	}
}

// timelineOf reads a window of the thread.
func (r *moveRig) timelineOf(query string) (w timelineItem) {
	r.Helper()
	r.get("/threads/"+string(r.thread)+"/timeline"+query, &w)
	return w
}

func TestAnUndoneLineAndAFork(t *testing.T) {
	r := newMoveRig(t)
	r.timelineOf("") // the next call reads only newer checkpoints
	r.move(`"verb":"undo","turns":2`)
	r.turn(4)
	w := r.timelineOf("")
	last := w.Items[len(w.Items)-1]
	if last.Turn != 4 || last.Lane != 0 || !last.OnLine || !last.Head {
		t.Errorf("turn 4: %+v", last)
	}
	for _, item := range w.Items {
		if isUndone := item.Turn == 2 || item.Turn == 3; item.OnLine == isUndone {
			t.Errorf("turn %d: %+v", item.Turn, item)
		}
		if item.Turn == 1 && (len(item.Operations) != 1 || item.Operations[0]["verb"] != "undo" || len(item.Joins) != 2) {
			t.Errorf("turn 1: %+v", item)
		}
	}
}

func TestTagsAndCompression(t *testing.T) {
	r := newMoveRig(t)
	for _, path := range []string{
		"/api/v1/threads/" + string(r.thread) + "/timeline", "/api/v1/checkpoints/" + string(r.turns[0].ID), "/", "/api/v1/openapi.json",
		fmt.Sprintf("/api/v1/diff?from=%s&to=%s&path=a.txt", r.turns[0].ID, r.turns[1].ID),
		"/api/v1/file?checkpoint=" + string(r.turns[0].ID) + "&path=a.txt",
	} {
		res, plain := r.request("GET", path, "", map[string]string{"Accept-Encoding": "identity"})
		tag := res.Header.Get("ETag")
		if res.StatusCode != http.StatusOK || tag == "" {
			t.Fatalf("%s: %d %v", path, res.StatusCode, res.Header)
		}
		if res, body := r.request("GET", path, "", map[string]string{"If-None-Match": tag}); res.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s with %s: %d %q", path, tag, res.StatusCode, body)
		}
		res, packed := r.request("GET", path, "", map[string]string{"Accept-Encoding": "br, gzip;q=0.5"})
		if len(plain) < 1400 {
			continue
		}
		z, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil || res.Header.Get("Content-Encoding") != "gzip" || len(packed) >= len(plain) {
			t.Fatalf("%s: %v %v", path, err, res.Header)
		}
		if data, err := io.ReadAll(z); err != nil || string(data) != plain {
			t.Errorf("%s: the compressed answer differs (%v)", path, err)
		}
	}
}

// TestFilesStayInert checks that no content of a workspace has a type that a browser would run.
func TestFilesStayInert(t *testing.T) {
	r := newMoveRig(t)
	contents := map[string]string{
		"x.html": "<!doctype html><script>alert(1)</script>", "x.js": "alert(1)", "x.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
		"x.png": "\x89PNG\r\n\x1a\n\x00", "\xff\n\"x": "\x00\x01", "x.pdf": "%PDF-1.7 <script>",
	}
	key := r.begin(4)
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(r.project, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := r.end(key)
	var list struct {
		Changes []struct {
			Path      string
			PathBytes []byte `json:"path_bytes"`
		}
	}
	r.get("/checkpoints/"+string(c.ID), &list)
	if len(list.Changes) != len(contents) {
		t.Errorf("changes: %+v", list)
	}
	for name, content := range contents {
		query := url.Values{"checkpoint": {string(c.ID)}, "path": {name}}
		if name[0] == 0xff {
			query = url.Values{"checkpoint": {string(c.ID)}, "path_bytes": {"/woieA=="}}
		}
		res, body := r.request("GET", "/api/v1/file?"+query.Encode(), "", nil)
		h := res.Header
		media, isAttached := h.Get("Content-Type"), strings.HasPrefix(h.Get("Content-Disposition"), "attachment")
		isImage := media == "image/png" || media == "image/svg+xml"
		if res.StatusCode != 200 || body != content || isImage == isAttached || !isImage && media != "application/octet-stream" && media != "text/plain; charset=utf-8" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: %d %v", name, res.StatusCode, h)
		}
	}
}

func TestEvents(t *testing.T) {
	r := newMoveRig(t)
	r.timelineOf("")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(accept func(state string, total int) bool) {
		t.Helper()
		for lines.Scan() {
			var e struct {
				Thread segno.ThreadID
				State  string
				Total  int
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if ok && json.Unmarshal([]byte(data), &e) == nil && e.Thread == r.thread && accept(e.State, e.Total) {
				return
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	for lines.Scan() && lines.Text() != "event: hello" {
	}
	// The server may read the open turns for the first time after the turn has begun. A commit
	// is an event in any case.
	key := r.begin(4)
	r.write("a.txt", "4")
	if w := r.timelineOf(""); w.Open == nil || w.Open.Prompt != "prompt 4" || !w.Open.Running {
		t.Errorf("the open turn: %+v", w.Open)
	}
	r.end(key)
	next(func(_ string, total int) bool { return total == 5 })
	key = r.begin(5)
	next(func(state string, _ int) bool { return state == "running" })
	r.write("a.txt", "5")
	r.end(key)
	next(func(state string, total int) bool { return state == "idle" && total == 6 })
	r.stop() // the end of the server ends the stream
	for lines.Scan() {
	}
}
