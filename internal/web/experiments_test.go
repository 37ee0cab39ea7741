package web_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/web"
)

// chainColumns is the header of a chain with one outcome.
const chainColumns = "generation,agent_index,agent_name,run_id,status,template_in,workspace_out,start_utc,end_utc,duration_seconds,ticks,sim_seconds," +
	"checkpoints,tokens_in,tokens_out,reproducible,why_not_reproducible,caught\n"

// newRunsRig starts a server whose directory of runs has the experiment pond, with two agents and attempts at 120
// generations. Every second generation failed once.
func newRunsRig(t *testing.T) (r *moveRig, runs string) {
	r = newMoveRig(t)
	runs = filepath.Join(r.dir, "runs")
	text := chainColumns
	for g := 1; g <= 120; g++ {
		for n, status := range []string{"failed", "completed"}[g%2:] {
			for i, agent := range []string{"Ada", "Bo"} {
				text += fmt.Sprintf("%d,%d,%s,pond-g%03d-a%d,%s,,out,2026-01-01T00:00:00.000Z,2026-01-01T00:01:30.000Z,90.000,3,180,2,,,yes,,%d\n",
					g, i, agent, g, n+1, status, 10*g)
			}
		}
	}
	for name, content := range map[string]string{
		"pond/lock": "", "pond/generation_chain.csv": text, "pond/status.json": `{"experiment":"pond","state":"done","generation":120,"generations":120,"agents":["Ada","Bo"]}`,
		"broken/lock": "", "broken/generation_chain.csv": "not a chain", "empty/lock": "",
		"pond-g120/checkpoints/gen120-t000003.ckpt": "not a zip", "pond-g120/run.json": "private",
		"../outside/checkpoints/gen001-t000001.ckpt": "private",
	} {
		path := filepath.Join(runs, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"pond/attempts/pond-g120-a2": "../../pond-g120", "pond/attempts/out": "../../../outside", "pond/attempts/pond-g119-a1": "..",
		"pond-g120/checkpoints/gen120-t000004.ckpt": "../run.json",
	} {
		path := filepath.Join(runs, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	r.serveConfig(web.Config{Store: r.store, Local: r.store, Kind: "sqlite", Runs: runs})
	return r, runs
}

// chainItem is an experiment, as a client reads it.
type chainItem struct {
	State    string
	Total    int
	Next     string
	Outcomes []string
	Attempts []struct {
		Generation int
		Run        string `json:"run_id"`
		Status     string
		Outcomes   map[string]float64
		Agents     []struct{ Name, Thread string }
		Archives   []struct{ File, Error string }
	}
}

// TestExperimentInWindows reads all attempts, the newest generation first.
func TestExperimentInWindows(t *testing.T) {
	r, _ := newRunsRig(t)
	var list struct {
		Experiments []struct{ Name, State, Damage string }
		Next        string
	}
	r.get("/experiments?limit=2", &list)
	if len(list.Experiments) != 2 || list.Next != "2" || list.Experiments[0].Name != "broken" {
		t.Errorf("the experiments are %+v", list)
	}
	r.get("/experiments?cursor=2", &list)
	if len(list.Experiments) != 1 || list.Next != "" || list.Experiments[0].State != "done" {
		t.Errorf("the rest of the experiments is %+v", list)
	}
	seen := map[string]bool{}
	last := 121
	for cursor := "0"; cursor != ""; {
		var c chainItem
		r.get("/experiments/pond?limit=70&cursor="+cursor, &c)
		if c.Total != 180 || c.State != "done" || strings.Join(c.Outcomes, " ") != "caught" || len(c.Attempts) > 70 {
			t.Fatalf("a window has %d attempts of %d, and %q", len(c.Attempts), c.Total, c.Outcomes)
		}
		for _, a := range c.Attempts {
			if seen[a.Run] || a.Generation > last || len(a.Agents) != 2 || a.Outcomes["caught"] != float64(10*a.Generation) {
				t.Errorf("attempt %+v follows generation %d", a, last)
			}
			seen[a.Run], last = true, a.Generation
		}
		cursor = c.Next
	}
	if len(seen) != 180 {
		t.Errorf("%d attempts of 180", len(seen))
	}
	var c chainItem
	r.get("/experiments/empty", &c)
	if c.State != "not started" || c.Total != 0 || c.Attempts == nil {
		t.Errorf("an experiment without a run is %+v", c)
	}
}

// TestHugeExperiment reads an attempt with very many agents with very long names. The answer is bounded.
func TestHugeExperiment(t *testing.T) {
	r, runs := newRunsRig(t)
	long := strings.Repeat("x", 5_000)
	text := chainColumns
	for i := range 300 {
		text += fmt.Sprintf("1,%d,%s,pond-g001-a1,completed,%s,%s,2026-01-01T00:00:00.000Z,2026-01-01T00:01:30.000Z,90.000,3,180,2,,,no,%s,1\n", i, long, long, long, long)
	}
	for name, content := range map[string]string{"generation_chain.csv": text, "status.json": `{"agents":["` + strings.Repeat(long+`","`, 150) + `"],"error":"` + long + `"}`} {
		if err := os.WriteFile(filepath.Join(runs, "empty", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res, body := r.request(http.MethodGet, "/api/v1/experiments/empty", "", nil)
	if res.StatusCode != http.StatusOK || len(body) > 300_000 {
		t.Errorf("%d with %d bytes", res.StatusCode, len(body))
	}
	if res, body = r.request(http.MethodGet, "/api/v1/experiments", "", nil); res.StatusCode != http.StatusOK || len(body) > 100_000 {
		t.Errorf("%d with %d bytes", res.StatusCode, len(body))
	}
}

// TestArchivesOfAttempts downloads the archives of attempts. The server serves no other file.
func TestArchivesOfAttempts(t *testing.T) {
	r, _ := newRunsRig(t)
	var c chainItem
	r.get("/experiments/pond?limit=1", &c)
	if a := c.Attempts[0]; a.Run != "pond-g120-a2" || len(a.Archives) != 2 || a.Archives[1].File != "gen120-t000003.ckpt" || a.Archives[1].Error == "" {
		t.Errorf("the newest attempt is %+v", a)
	}
	for query, want := range map[string]int{
		"run_id=pond-g120-a2&file=gen120-t000003.ckpt":                http.StatusOK,
		"run_id=pond-g120-a2&file=gen120-t000004.ckpt":                http.StatusInternalServerError, // a symlink
		"run_id=pond-g120-a2&file=../run.json":                        http.StatusNotFound,
		"run_id=pond-g120-a2&file=run.json":                           http.StatusNotFound,
		"run_id=out&file=gen001-t000001.ckpt":                         http.StatusNotFound,
		"run_id=pond-g119-a1&file=gen120-t000003.ckpt":                http.StatusNotFound,
		"run_id=../../pond-g120&file=gen120-t000003.ckpt":             http.StatusNotFound,
		"run_id=..&file=gen120-t000003.ckpt":                          http.StatusNotFound,
		"run_id=" + r.dir + "/outside&file=gen001-t000001.ckpt":       http.StatusNotFound,
		"run_id=%2e%2e%2f%2e%2e%2fpond-g120&file=gen120-t000003.ckpt": http.StatusNotFound,
	} {
		res, body := r.request(http.MethodGet, "/api/v1/experiments/pond/archive?"+query, "", nil)
		if res.StatusCode != want || strings.Contains(body, "private") || want == http.StatusOK && body != "not a zip" {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
	res, _ := r.request(http.MethodGet, "/api/v1/experiments/pond/archive?run_id=pond-g120-a2&file=gen120-t000003.ckpt", "", nil)
	if h := res.Header; h.Get("Content-Disposition") != `attachment; filename="gen120-t000003.ckpt"` || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the headers of an archive are %v", h)
	}
}

// TestExperimentsThatAreRefused requests missing and damaged experiments. The server returns an error for each.
func TestExperimentsThatAreRefused(t *testing.T) {
	r, runs := newRunsRig(t)
	for path, want := range map[string]int{
		"/experiments/none": http.StatusNotFound, "/experiments/none/outcomes.svg": http.StatusNotFound, "/experiments/pond-g120": http.StatusNotFound,
		"/experiments/%2e%2e": http.StatusNotFound, "/experiments/..%2foutside": http.StatusNotFound,
		"/experiments/pond?cursor=181": http.StatusBadRequest, "/experiments/pond?limit=201": http.StatusBadRequest, "/experiments?cursor=4": http.StatusBadRequest,
		"/experiments/broken": http.StatusInternalServerError, "/experiments/broken/outcomes.svg": http.StatusInternalServerError,
	} {
		if res, body := r.request(http.MethodGet, "/api/v1"+path, "", nil); res.StatusCode != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	res, body := r.request(http.MethodGet, "/api/v1/experiments/pond/outcomes.svg", "", nil)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(body, ">caught</text>") ||
		!strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the drawing: %d %v %s", res.StatusCode, res.Header, body)
	}
	if err := os.RemoveAll(runs); err != nil {
		t.Fatal(err)
	}
	var list struct{ Experiments []any }
	if r.get("/experiments", &list); list.Experiments == nil || len(list.Experiments) > 0 {
		t.Errorf("without a directory of runs the experiments are %v", list.Experiments)
	}
}
