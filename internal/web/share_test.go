package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
)

// A filter of threads looks at the title, the agent and the directory, in any case, and its windows have each match once.
func TestFilterOfThreads(t *testing.T) {
	r := newMoveRig(t)
	for range 3 {
		r.move(`"verb":"fork","scope":"chat","title":"Another Way"`)
	}
	type list struct {
		Threads []struct{ ID string }
		Next    string
	}
	for _, x := range []struct {
		q    string
		want int
	}{{"another way", 3}, {"ROBOT", 4}, {"project", 4}, {"prompt 1", 1}, {"nothing", 0}} {
		seen := map[string]bool{}
		for cursor := "0"; cursor != ""; {
			var l list
			r.get("/threads?limit=2&q="+url.QueryEscape(x.q)+"&cursor="+cursor, &l)
			for _, t := range l.Threads {
				seen[t.ID] = true
			}
			cursor = l.Next
		}
		if len(seen) != x.want {
			t.Errorf("%q has %d threads, not %d", x.q, len(seen), x.want)
		}
	}
}

// A turn is exported as a download, and only in the formats for people.
func TestExportOfATurn(t *testing.T) {
	r := newMoveRig(t)
	path := "/api/v1/checkpoints/" + string(r.turns[1].ID) + "/export?format="
	if res, body := r.request(http.MethodGet, path+"html", "", nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("a server without exports answers %d %s", res.StatusCode, body)
	}
	r.stop()
	r.serveConfig(web.Config{Store: r.store, Local: r.store, Kind: "sqlite",
		Share: func(_ context.Context, w io.Writer, thread segno.ThreadID, at segno.CommitID, format string) error {
			_, err := fmt.Fprint(w, thread, at, format)
			return err
		}})
	res, body := r.request(http.MethodGet, path+"html", "", nil)
	if res.StatusCode != http.StatusOK || body != string(r.thread)+string(r.turns[1].ID)+"html" || res.Header.Get("Content-Disposition") != "attachment" {
		t.Errorf("the export is %d %v %s", res.StatusCode, res.Header, body)
	}
	if res, body := r.request(http.MethodGet, path+"jsonl", "", nil); res.StatusCode != http.StatusBadRequest {
		t.Errorf("another format answers %d %s", res.StatusCode, body)
	}
}
