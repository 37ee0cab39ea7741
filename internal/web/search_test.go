package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"

	"github.com/dalsegno/segno/internal/web"
)

// foundItem is the result of a search.
type foundItem struct {
	Hits []struct {
		Checkpoint           segno.CommitID
		Turn                 int
		Kind, Field, Tool    string
		Before, Match, After string
		Touched              *struct {
			Path, Action, From string
			Call               *struct{ Tool, Title string }
		}
		FilesBefore segno.CommitID `json:"files_before"`
		More        int
		Undone      bool
	}
	Complete bool
	Next     string
}

// texts returns the whole excerpt of each hit, with its field.
func (f *foundItem) texts() (all []string) {
	for _, x := range f.Hits {
		all = append(all, x.Field+": "+x.Before+"["+x.Match+"]"+x.After)
	}
	return all
}

// search searches the rig's store.
func (r *moveRig) search(q, more string) (found foundItem) {
	r.Helper()
	r.get("/search?q="+url.QueryEscape(q)+more, &found)
	return found
}

// commands makes a turn that runs shell commands in the project.
func (r *moveRig) commands(n int, commands ...string) *segno.Checkpoint {
	r.Helper()
	key := r.begin(n)
	for _, command := range commands {
		r.call(key, "Bash", map[string]string{"command": command}, func() any {
			cmd := exec.CommandContext(r.Context(), "sh", "-c", command)
			cmd.Dir = r.project
			out, err := cmd.CombinedOutput()
			if err != nil {
				r.Fatalf("%s: %v: %s", command, err, out)
			}
			return map[string]any{"response": map[string]string{"stdout": string(out)}}
		})
	}
	return r.end(key)
}

// call records a call of a tool as hooks do.
func (r *moveRig) call(key segno.TurnKey, tool string, input any, run func() any) {
	r.Helper()
	id := segno.NewID()
	record := func(kind segno.EntryKind, body any) {
		data, err := json.Marshal(body)
		if err == nil {
			err = r.timeline.AppendEntry(r.Context(), key, segno.Entry{Kind: kind, ID: id, Name: tool, Time: time.Now(), Body: data})
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	record(segno.EntryIntent, input)
	record(segno.EntryResult, run())
}

// TestSearchFindsTheTurnThatDeletedAFile asks one question: which turn deleted the guide? A shell command did, from
// another directory than the root.
func TestSearchFindsTheTurnThatDeletedAFile(t *testing.T) {
	r := newMoveRig(t)
	r.commands(4, "mkdir docs", "echo draft > docs/guide.md", "echo b > docs/b.md")
	r.commands(5, "cat docs/guide.md")
	r.commands(6, "ls", "cd docs && rm guide.md b.md")
	r.commands(7, "mkdir docs; echo moved > docs/guide.md", "ls")
	r.commands(8, "mv docs/guide.md manual.md")
	if err := os.Remove(r.project + "/a.txt"); err != nil { // not by a turn
		t.Fatal(err)
	}
	r.commands(9, "true")

	found := r.search("guide.md", "&what=deleted")
	if len(found.Hits) != 2 || !found.Complete {
		t.Fatalf("the turns that deleted the guide: %+v", found)
	}
	renamed, deleted := found.Hits[0], found.Hits[1]
	if renamed.Turn != 8 || renamed.Touched == nil || renamed.Touched.Action != "renamed" || renamed.Touched.From != "docs/guide.md" || renamed.Touched.Path != "manual.md" {
		t.Errorf("the new name: %+v", renamed)
	}
	if deleted.Turn != 6 || deleted.Field != "path" || deleted.Touched == nil || deleted.Touched.Action != "deleted" || deleted.Touched.Path != "docs/guide.md" ||
		deleted.Touched.Call == nil || deleted.Touched.Call.Title != "cd docs && rm guide.md b.md" || deleted.Before+deleted.Match+deleted.After != "docs/guide.md" {
		t.Errorf("the deletion: %+v", deleted)
	}
	if found := r.search("docs/", "&what=deleted"); len(found.Hits) != 2 || found.Hits[1].More != 1 {
		t.Errorf("the deletion of two paths: %+v", found)
	}
	if found := r.search("GUIDE", "&what=path"); len(found.Hits) != 4 {
		t.Errorf("the turns that touched the guide: %+v", found)
	}
	if found := r.search("a.txt", "&what=deleted"); len(found.Hits) != 1 || found.Hits[0].Kind != "external" {
		t.Errorf("a file that no turn deleted: %+v", found)
	}
	all := r.search("", "&what=deleted") // the name of the file may be forgotten
	if len(all.Hits) != 3 {
		t.Errorf("all deletions: %+v", all)
	}
	for _, x := range all.Hits {
		if x.Touched == nil || x.Before+x.Match+x.After != x.Touched.From && x.Before+x.Match+x.After != x.Touched.Path {
			t.Errorf("the text of a deletion: %+v", x)
		}
	}
	// Without a filter, the same word finds the commands, too.
	if text := strings.Join(found.texts(), "\n"); strings.Contains(text, "tool:") {
		t.Errorf("the filter finds calls: %s", text)
	}
	if text := strings.Join(r.texts("guide.md"), "\n"); !strings.Contains(text, "tool: cd docs && rm [guide.md] b.md") || !strings.Contains(text, "path: docs/[guide.md]") {
		t.Errorf("without a filter: %s", text)
	}
	r.move(`"verb":"restore","to":"` + string(r.turns[4].ID) + `","scope":"both"`)
	if found := r.search("guide.md", "&what=deleted"); len(found.Hits) != 2 || !found.Hits[0].Undone || !found.Hits[1].Undone {
		t.Errorf("after a restore of an earlier turn: %+v", found)
	}
	if found := r.search("draft", "&what=tool"); len(found.Hits) != 1 || found.Hits[0].Undone {
		t.Errorf("a turn that is not undone: %+v", found)
	}
	r.move(`"verb":"restore","to":"` + string(deleted.FilesBefore) + `","scope":"files","paths":["docs/guide.md"]`) // the hit brings it back
	r.file("docs/guide.md", "draft\n")
	for _, wrong := range []string{"/search?q=", "/search?q=&what=tool", "/search?q=x&what=nosuch"} {
		if res, body := r.request(http.MethodGet, "/api/v1"+wrong, "", nil); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", wrong, res.StatusCode, body)
		}
	}
}

func (r *moveRig) texts(q string) []string {
	r.Helper()
	found := r.search(q, "")
	return found.texts()
}

// TestSearchFindsCommandsAsTyped finds a command by what the user sees of it, in each form in which agents record it.
func TestSearchFindsCommandsAsTyped(t *testing.T) {
	const command = "cd docs && rm -r old\necho \"oops\" >&2"
	store := memory.New(nil)
	defer store.Close()
	inputs := []struct {
		tool string
		body any
	}{
		{"Bash", map[string]string{"command": command, "description": "tidy"}},
		{"shell", map[string]any{"command": []string{"bash", "-lc", command}, "timeout": 10}},
		{"execute", map[string]any{"title": "Run it", "kind": "execute", "input": map[string]any{"cmd": []string{"bash", "-lc", command}}}},
		{"execute", map[string]any{"title": command, "kind": "execute", "input": nil}},
		{"mcp__t__run", map[string]any{"options": map[string]any{"script": []string{"x", command}}}},
	}
	var head segno.CommitID
	for n, in := range inputs {
		data, err := json.Marshal(in.body) // escapes & and > as \u0026 and \u003e
		if err != nil {
			t.Fatal(err)
		}
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Parent: head, Expect: head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Time: time.Now(), Prompt: "prompt", Agent: "a"},
			Entries: []segno.Entry{{Kind: segno.EntryIntent, ID: "x", Name: in.tool, Body: data},
				{Kind: segno.EntryResult, ID: "x", Name: in.tool, Body: json.RawMessage(`{"response":{"stdout":"the output of it"}}`)},
				{Kind: segno.EntryMessage, Name: "agent", Body: json.RawMessage(`"An answer\n\n* of **three**\n* lines and many more words that are about nothing in particular, so that the text is longer than an excerpt"`)}}}
		if n == 0 {
			c.Create = &segno.Thread{ID: "t", Title: "a thread"}
		}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		head = c.ID
	}
	r := &moveRig{T: t, now: time.Now(), token: web.NewToken()}
	r.serveConfig(web.Config{Store: store, Kind: "file"})
	for q, want := range map[string]string{
		"docs && rm":      `tool: cd [docs && rm] -r old echo "oops" >&2`,
		`echo "oops" >&2`: `tool: cd docs && rm -r old [echo "oops" >&2]`,
		"old\necho":       `tool: cd docs && rm -r [old echo] "oops" >&2`,
		"old echo":        `tool: cd docs && rm -r [old echo] "oops" >&2`,
	} {
		texts := r.texts(q)
		if len(texts) != len(inputs) {
			t.Errorf("%q has %d hits: %q", q, len(texts), texts)
		}
		for _, text := range texts {
			if text != want {
				t.Errorf("%q finds %q, want %q", q, text, want)
			}
		}
	}
	if texts := r.texts(`\u0026`); len(texts) != 0 {
		t.Errorf("an escape that no user typed is found: %q", texts)
	}
	for q, want := range map[string]string{
		"output of": "output: the [output of] it",
		"answer":    "answer: An [answer] * of **three** * lines and many more words that are about nothing in particular, so…",
		"longer":    "answer: …in particular, so that the text is [longer] than an excerpt",
	} {
		if texts := r.texts(q); len(texts) != len(inputs) || texts[0] != want {
			t.Errorf("%q finds %q, want %q", q, texts, want)
		}
	}
	for what, want := range map[string]int{"prompt": 0, "answer": 0, "tool": 5, "output": 0, "path": 0} {
		if found := r.search("docs && rm", "&what="+what); len(found.Hits) != want {
			t.Errorf("in %s: %+v", what, found.texts())
		}
	}
}

// TestSearchUsesTheIndex finds words by the index, the best hits first, and behind them the matches inside of words, each once
// and on several pages.
func TestSearchUsesTheIndex(t *testing.T) {
	r := newMoveRig(t)
	r.commands(4, "echo unlimited")
	r.commands(5, "echo a limit", "echo the delimiter of a limiter")
	r.commands(6, "touch limits.txt unlimited.txt")
	r.commands(7, "touch sublimit.txt")
	want := []string{"tool: echo a [limit]", "tool: echo un[limit]ed", "output: a [limit]", "output: un[limit]ed",
		"path: [limit]s.txt", "path: sub[limit].txt", "tool: touch [limit]s.txt unlimited.txt", "tool: touch sub[limit].txt"}
	sorted := func(texts []string) string {
		texts = slices.Clone(texts)
		slices.Sort(texts)
		return strings.Join(texts, "\n")
	}
	all := r.search("limit", "")
	texts := all.texts()
	if sorted(texts) != sorted(want) || !all.Complete {
		t.Errorf("all hits: %q, want %q", texts, want)
	}
	for i, text := range texts {
		if isWord := strings.Contains(text, " [limit]"); isWord != (i < 4) {
			t.Errorf("hit %d is %q", i, text)
		}
	}
	var pages []string
	for cursor := ""; ; {
		page := r.search("limit", "&limit=3&cursor="+url.QueryEscape(cursor))
		pages = append(pages, page.texts()...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if sorted(pages) != sorted(want) {
		t.Errorf("pages: %q", pages)
	}
	if segments, err := filepath.Glob(filepath.Join(r.store.Place().Store, "search", "*.seg")); len(segments) == 0 || err != nil {
		t.Errorf("there is no index: %v", err)
	}
	if res, body := r.request(http.MethodGet, "/api/v1/search?q=x&cursor=%2B:x", "", nil); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a malformed cursor: %d %s", res.StatusCode, body)
	}
}

// TestSearchOfManyWords searches the beginning of more words than the index looks up, on several pages. The scan finds the rest.
func TestSearchOfManyWords(t *testing.T) {
	r := newMoveRig(t)
	many := "echo"
	for i := range 1100 {
		many += fmt.Sprintf(" limit%04d", i)
	}
	r.commands(4, many)
	r.commands(5, "echo limitz")
	var pages []string
	for cursor := ""; ; {
		page := r.search("limit", "&limit=2&cursor="+url.QueryEscape(cursor))
		pages = append(pages, page.texts()...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for _, want := range []string{"tool: echo [limit]z", "output: [limit]z"} {
		if !slices.Contains(pages, want) {
			t.Errorf("%q is not in %q", want, pages)
		}
	}
}
