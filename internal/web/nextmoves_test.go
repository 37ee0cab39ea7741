package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// nextAnswer is the answer about the next moves of a thread.
type nextAnswer struct {
	Undo, Redo struct {
		Preview *struct {
			ID, Sentence, Effect string
		}
		Why, Hint string
	}
}

func (r *moveRig) next() (n nextAnswer) {
	r.Helper()
	a := r.post("/previews/next", "", `{"thread":"`+string(r.thread)+`"}`)
	if a.status != http.StatusOK {
		r.Fatalf("the next moves are %d %s", a.status, a.raw)
	}
	r.decode(a, &n)
	return n
}

// The undo of the last turn is offered whatever the head of the thread is, with the words that describe it.
func TestNextMovesOfAnyHead(t *testing.T) {
	r := newMoveRig(t)
	n := r.next()
	if n.Undo.Preview == nil || n.Undo.Preview.Effect != "removes “prompt 3”: 2 files change" ||
		n.Undo.Preview.Sentence != "Undoes “prompt 3”; 2 files change; nothing of yours is touched." {
		t.Fatalf("after a turn: %+v", n.Undo)
	}
	if n.Redo.Preview != nil || n.Redo.Why != "nothing to redo" {
		t.Errorf("after a turn, redo: %+v", n.Redo)
	}
	// An edit outside, a save, and a restore of one path each become or follow the head.
	r.write("mine.txt", "mine")
	if got := r.next().Undo.Preview; got == nil || got.Effect != n.Undo.Preview.Effect {
		t.Errorf("after an edit outside: %+v", got)
	}
	if _, err := r.timeline.Save(t.Context(), segno.CheckpointSave, "a save"); err != nil {
		t.Fatal(err)
	}
	if got := r.next().Undo.Preview; got == nil || got.Effect != n.Undo.Preview.Effect {
		t.Errorf("after a save: %+v", got)
	}
	r.move(`"verb":"restore","to":"` + string(r.turns[0].ID) + `","scope":"files","paths":["a.txt"]`)
	n = r.next()
	if n.Undo.Preview == nil || n.Undo.Preview.Effect != "removes “prompt 3”: 1 file changes, 1 conflict" {
		t.Errorf("after a restore of one path: %+v", n.Undo)
	}
	// The preview of the bar is applied as it is.
	done := r.post("/moves", "key", `{"preview":"`+n.Undo.Preview.ID+`"}`)
	if done.status != http.StatusOK || done.Sentence != "Undone “prompt 3”: 1 file changed; 1 file with changes of yours left alone." {
		t.Errorf("the undo returns %d %s", done.status, done.raw)
	}
	r.file("mine.txt", "mine")
	r.file("lines.txt", "line 1\nline 2\n")
	if n = r.next(); n.Redo.Preview == nil || !strings.HasPrefix(n.Redo.Preview.Effect, "brings back “prompt 3”: ") {
		t.Errorf("after the undo, redo: %+v", n.Redo)
	}
	key := r.begin(4)
	if n = r.next(); n.Undo.Preview != nil || !strings.Contains(n.Undo.Why, "is open") || n.Undo.Hint == "" {
		t.Errorf("while a turn is open: %+v", n.Undo)
	}
	r.end(key)
}

// A sentence about a plan names the work of the user that the plan meets.
func TestSentencesAboutTheUsersWork(t *testing.T) {
	r := newMoveRig(t)
	r.write("a.txt", "mine")
	r.write("lines.txt", "mine\nline 1\nline 2\nline 3\n")
	if p := r.preview(`"verb":"undo","turns":2`); p.Sentence != "Undoes 2 turns; 1 file changes; 1 file that changed since stays as it is; 1 file keeps your later lines." {
		t.Errorf("undo: %s", p.Sentence)
	}
	if p := r.preview(`"verb":"restore","to":"` + string(r.turns[0].ID) + `"`); p.Sentence != "Goes to t1; 2 files change; the present is saved first." {
		t.Errorf("restore: %s", p.Sentence)
	}
	if err := os.Remove(filepath.Join(r.project, "a.txt")); err != nil {
		t.Fatal(err)
	}
	p := r.preview(`"verb":"restore","to":"` + string(r.turns[1].ID) + `","scope":"files","paths":["a.txt"]`)
	if p.Sentence != "a.txt comes back, as it was at t2." {
		t.Errorf("restore of a path: %s", p.Sentence)
	}
	if done := r.apply(p, ""); done.Sentence != "a.txt came back, as it was at t2." {
		t.Errorf("restored: %s", done.Sentence)
	}
}

// The difference of a previewed path is from its present content to what the move writes, also for a merged file.
func TestDifferenceOfAPreview(t *testing.T) {
	r := newMoveRig(t)
	r.write("lines.txt", "mine\nline 1\nline 2\nline 3\n")
	p := r.preview(`"verb":"undo"`)
	var d struct {
		Kind  string
		Lines [][]any
	}
	r.get("/previews/"+p.ID+"/diff?path=lines.txt", &d)
	var lines []string
	for _, l := range d.Lines {
		lines = append(lines, l[0].(string)+l[3].(string))
	}
	if got := strings.Join(lines, "|"); d.Kind != "text" || !strings.Contains(got, "-line 3") || strings.Contains(got, "-mine") {
		t.Errorf("the difference is %s %s", d.Kind, got)
	}
	res, body := r.request(http.MethodGet, "/api/v1/previews/"+p.ID+"/diff?path=other.txt", "", nil)
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("the difference of another path is %d %s", res.StatusCode, body)
	}
}

// The history of a file has the turns that touched it, on all lines, and the checkpoint before each.
func TestHistoryOfAFile(t *testing.T) {
	r := newMoveRig(t)
	key := r.begin(4)
	if err := os.Remove(filepath.Join(r.project, "a.txt")); err != nil {
		t.Fatal(err)
	}
	r.end(key)
	var f struct {
		Exists  *bool
		Next    int
		Touches []struct {
			ID     string
			Turn   int
			Change struct{ Sign string }
			Before string
			OnLine bool `json:"on_line"`
		}
	}
	path := "/threads/" + string(r.thread) + "/file?path=a.txt"
	r.get(path, &f)
	if len(f.Touches) != 4 || f.Exists == nil || *f.Exists || f.Next != 0 {
		t.Fatalf("the history is %+v", f)
	}
	for i, sign := range []string{"-", "~", "~", "+"} {
		if x := f.Touches[i]; x.Turn != 4-i || x.Change.Sign != sign || !x.OnLine {
			t.Errorf("touch %d is %+v", i, x)
		}
	}
	if f.Touches[0].Before != string(r.turns[2].ID) {
		t.Errorf("before t4 is %s", f.Touches[0].Before)
	}
	// One request brings the file back as it was before the turn that deleted it.
	done := r.move(`"verb":"restore","to":"` + f.Touches[0].Before + `","scope":"files","paths":["a.txt"]`)
	r.file("a.txt", "3")
	r.undo(done)
	var seen []int
	for cursor := 0; ; cursor = f.Next {
		f.Touches = nil
		r.get(path+"&limit=1&cursor="+strconv.Itoa(cursor), &f)
		for _, x := range f.Touches {
			if x.Turn > 0 {
				seen = append(seen, x.Turn)
			}
		}
		if f.Next == 0 {
			break
		}
	}
	if len(seen) < 4 || seen[len(seen)-1] != 1 {
		t.Errorf("windows of one have the turns %v", seen)
	}
	r.get("/threads/"+string(r.thread)+"/file?path=never.txt", &f)
	if len(f.Touches) != 0 {
		t.Errorf("a path that never existed has %+v", f.Touches)
	}
}
