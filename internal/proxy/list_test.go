package proxy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// listed returns the sessions of a directory over all pages, by id, and the number of
// pages. The test fails if a session is in the list twice.
func (r *rig) listed(c *acptest.Client, cwd string) (sessions map[string]acptest.Listed, pages int) {
	r.Helper()
	sessions = map[string]acptest.Listed{}
	params := map[string]any{"cwd": cwd}
	for {
		m, err := c.Call(r.ctx, "session/list", params)
		if err != nil {
			r.Fatal(err)
		}
		var list struct {
			Sessions   []acptest.Listed `json:"sessions"`
			NextCursor string           `json:"nextCursor"`
		}
		if err := m.Decode(m.Result, &list); err != nil {
			r.Fatalf("%v: %s", err, m.Line)
		}
		for _, s := range list.Sessions {
			if _, twice := sessions[s.SessionID]; twice {
				r.Errorf("%s is listed twice", s.SessionID)
			}
			sessions[s.SessionID] = s
		}
		if pages++; list.NextCursor == "" {
			return sessions, pages
		}
		params["cursor"] = list.NextCursor
	}
}

// remembered adds n sessions to the index, as earlier runs did.
func (r *rig) remembered(agent string, n int) (ids []string) {
	r.Helper()
	for i := range n {
		id := fmt.Sprintf("old-%03d", i)
		ids = append(ids, id)
		if err := proxy.Remember(r.data(), id, "thread-"+id, agent, r.project, i); err != nil {
			r.Fatal(err)
		}
	}
	return ids
}

// TestListPages checks that the list has each session once, with agents that list sessions
// and agents that do not.
func TestListPages(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]func(string) acptest.Config{
		"full": acptest.Full, "none": none, "pages": changed(acptest.Full, func(c *acptest.Config) { c.ListPage = 2 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c := r.client()
			var want []string
			for range 5 {
				s := r.open(c, "new", "")
				r.say(c, s, "alpha")
				want = append(want, s)
			}
			want = append(want, r.remembered(r.agent.Name, 230)...)
			got, pages := r.listed(c, r.project)
			if ids := slices.Sorted(maps.Keys(got)); !slices.Equal(ids, sorted(want)) {
				t.Errorf("%d sessions are listed; want %d", len(ids), len(want))
			}
			if pages < 3 {
				t.Errorf("there are %d pages", pages)
			}
		})
	}
}

// TestInvalidCursor checks that an invalid cursor is an error of the params.
func TestInvalidCursor(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c := r.client()
		for _, cursor := range []any{"x", "", "offset:5", "segno:", "segno:!", "segno:eyJhIjo", 5, map[string]any{}} {
			_, err := c.Call(r.ctx, "session/list", map[string]any{"cursor": cursor})
			if e := r.refused(err); e.Code != acp.CodeInvalidParams || !strings.Contains(e.Message, "cursor") {
				t.Errorf("%v: refused with %v", cursor, e)
			}
		}
		if _, err := c.Call(r.ctx, "session/list", map[string]any{"cursor": nil}); err != nil {
			t.Errorf("null: %v", err)
		}
	})
}

// TestOriginalAfterForkInPlace checks that the list has the original under an id that the
// client can load, and that /switch changes between the two.
func TestOriginalAfterForkInPlace(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		source := r.log()[0].Thread
		if said := r.order(c, s, "/fork other"); !strings.Contains(said, "/switch "+source[:8]) {
			t.Errorf("the user sees %q", said)
		}
		r.say(c, s, "beta")
		r.wantSeen([]string{"alpha", "beta"})
		got, _ := r.listed(c, r.project)
		delete(got, s)
		if len(got) != 1 {
			t.Fatalf("beside the fork are listed %v", got)
		}
		for original := range got {
			from := c.Place()
			r.open(c, "load", original)
			if text := strings.Join(shown(c, from), "\n"); !strings.Contains(text, "said-alpha") || strings.Contains(text, "beta") {
				t.Errorf("a load of the original shows\n%s", text)
			}
			r.say(c, original, "gamma")
			r.wantSeen([]string{"alpha", "gamma"}, "beta")
		}
		r.say(c, s, "delta")
		r.wantSeen([]string{"alpha", "beta", "delta"}, "gamma")
		fork := r.log()[0].Thread
		if said := r.order(c, s, "/switch"); !strings.Contains(said, source[:8]) || !strings.Contains(said, "@ "+fork[:8]) {
			t.Errorf("the threads are\n%s", said)
		}
		r.order(c, s, "/switch "+source[:8])
		r.say(c, s, "epsilon")
		r.wantSeen([]string{"alpha", "gamma", "epsilon"}, "beta", "delta")
		if _, err := c.Call(r.ctx, "_segno/switch", map[string]any{"sessionId": s, "thread": fork}); err != nil {
			t.Fatal(err)
		}
		r.say(c, s, "zeta")
		r.wantSeen([]string{"alpha", "beta", "delta", "zeta"}, "gamma", "epsilon")
		if got, _ := r.listed(c, r.project); len(got) != 2 {
			t.Errorf("listed are %v", got)
		}
		for _, wrong := range []string{"none", source[:3]} {
			if said := r.order(c, s, "/switch "+wrong); !strings.HasPrefix(said, "segno: ") {
				t.Errorf("/switch %s: said %q", wrong, said)
			}
		}
		r.segno("check")
	})
}

// TestListOfMovedDirectory checks that the list of a moved directory has its sessions,
// including those of a subdirectory.
func TestListOfMovedDirectory(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	eachAgent(t, movers(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		if err := os.Mkdir(filepath.Join(r.project, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		within, err := c.Open(r.ctx, "new", "", filepath.Join(r.project, "below"))
		if err != nil {
			t.Fatal(err)
		}
		r.say(c, within, "beta")
		r.leave(c)
		moved := r.project + "-moved"
		if err := os.Rename(r.project, moved); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(r.project, 0o755); err != nil {
			t.Fatal(err)
		}
		c = r.client()
		for dir, want := range map[string]string{moved: s, filepath.Join(moved, "below"): within} {
			got, _ := r.listed(c, dir)
			if len(got) != 1 || got[want].Cwd != dir {
				t.Errorf("%s has %v; want %s", dir, got, want)
			}
		}
		if _, err := c.Open(r.ctx, "load", s, moved); err != nil {
			t.Fatal(err)
		}
		r.say(c, s, "gamma")
		r.wantSeen([]string{"alpha", "gamma"})
	})
}

// TestSwitchByBeginningOfTitle names a thread by the first letters of its title, in either case.
func TestSwitchByBeginningOfTitle(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	r.say(c, s, "Fix the parser of dates")
	r.order(c, s, "/fork Another attempt")
	if said := r.order(c, s, "/switch fix the"); !strings.Contains(said, "Fix the parser of dates") {
		t.Errorf("said %q", said)
	}
	if said := r.order(c, s, "/switch Anot"); !strings.Contains(said, "Another attempt") {
		t.Errorf("said %q", said)
	}
	if said := r.order(c, s, "/switch No such"); !strings.HasPrefix(said, "segno: ") {
		t.Errorf("said %q", said)
	}
}

// TestDeletedSessionIsListedAgain prompts a deleted session, which is then in the list of
// the next client.
func TestDeletedSessionIsListedAgain(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		if _, err := c.Call(r.ctx, "session/delete", map[string]string{"sessionId": s}); err != nil {
			t.Fatal(err)
		}
		if list, _ := r.listed(c, r.project); len(list) != 0 {
			t.Errorf("after the deletion the list has %v", list)
		}
		r.say(c, s, "beta")
		r.leave(c)
		if list, _ := r.listed(r.client(), r.project); len(list) != 1 {
			t.Errorf("after the prompt the list has %v", list)
		}
	})
}

// TestSwitchListsShortNames lists the threads of a directory in which the user has named one.
func TestSwitchListsShortNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(dir string) acptest.Config { return acptest.Config{Dir: dir, Name: "segno", Version: "1.0.0"} })
	r.segno("chat", "--session", "one", "-p", "say hi")
	c, s := r.session()
	r.say(c, s, "alpha")
	if said := r.order(c, s, "/switch"); !strings.Contains(said, "  one  ") || !strings.Contains(said, "say hi") {
		t.Errorf("said %q", said)
	}
	if said := r.order(c, s, "/switch say hi"); !strings.Contains(said, "now thread one, ") {
		t.Errorf("said %q", said)
	}
}
