package web_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// journey counts what a user does from the landing page to a goal.
type journey struct {
	*page
	clicks, presses int
}

func (j *journey) click(selector, text string) {
	j.Helper()
	j.clicks++
	j.page.click(selector, text)
}

func (j *journey) keys(keys ...string) {
	j.Helper()
	j.presses += len(keys)
	j.page.keys(keys...)
}

// took checks that the user needed at most a number of clicks and of keys.
func (j *journey) took(clicks, presses int) {
	j.Helper()
	if j.clicks > clicks || j.presses > presses {
		j.Errorf("the journey took %d clicks and %d keys, more than %d and %d", j.clicks, j.presses, clicks, presses)
	}
}

// land opens the landing page of the demo's project.
func (d *demo) land(browser *chromiumrig.Browser, url string, width int64) *journey {
	d.Helper()
	j := &journey{page: openPage(d, browser, url, width, 844)}
	j.wait("document.querySelector('.row.selected')")
	return j
}

// sizes of a desk and of a phone.
var widths = []int64{1440, 390}

// The last turn is undone by one click, whatever the head of the thread is: a turn, a save, an edit outside, or a restore
// of one path. The bar says before what it would do.
func TestUndoOfTheLastTurnIsOneClick(t *testing.T) {
	browser := chromiumrig.Start(t)
	for _, width := range widths {
		d := newDemo(t)
		d.segno("redo", "2", "-y")
		s := serve(t, d.command("web", "--no-open"))
		j := d.land(browser, s.URL, width)
		j.waitText("#undo .undo .effect", "removes “clean up”: 3 files come back")
		j.click("#undo button", "Undo last turn")
		j.waitText("#toasts", "Undone “clean up”: 3 files came back.")
		j.took(1, 0)
		if d.read("NOTES.md") == "" || d.read(".env") == "" {
			t.Error("the page reported an undo that did not happen")
		}
		j.waitText("#undo .redo .effect", "brings back “clean up”: 3 files are deleted")
		j.click("#undo button", "Redo")
		j.waitText("#toasts", "Redone “clean up”")
		j.took(2, 0)
		if d.read("NOTES.md") != "" {
			t.Error("the page reported a redo that did not happen")
		}
		for _, x := range []struct {
			what string
			make func()
		}{
			{"a save", func() { d.write("mine.txt", "mine\n"); d.segno("save", "-m", "mine") }},
			{"an edit outside", func() { d.write("mine.txt", "mine again\n") }},
			{"a restore of one path", func() { d.segno("restore", "t3", "src/shout.sh", "-y") }},
		} {
			x.make()
			j = d.land(browser, s.URL, width)
			j.waitText("#undo .undo .effect", "removes “clean up”: 3 files come back")
			j.click("#undo button", "Undo last turn")
			j.waitText("#toasts", "Undone “clean up”")
			j.took(1, 0)
			if d.read("NOTES.md") == "" || d.read("mine.txt") == "" {
				t.Errorf("%d px, after %s: the undo has NOTES.md %q and mine.txt %q", width, x.what, d.read("NOTES.md"), d.read("mine.txt"))
			}
			d.segno("redo", "-y")
		}
	}
}

// By keyboard, u shows the differences of the undo, and Enter makes it; r and Enter redo it.
func TestUndoOfTheLastTurnByKeyboard(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	d.write("mine.txt", "mine\n")
	d.segno("save", "-m", "mine")
	s := serve(t, d.command("web", "--no-open"))
	j := d.land(chromiumrig.Start(t), s.URL, 1440)
	j.waitText("#undo .undo .effect", "removes “clean up”")
	j.keys("u")
	j.waitText("dialog .sentence", "Undoes “clean up”; 3 files come back; ")
	j.waitText("dialog .line.added", "# Notes")
	j.waitNo("dialog", "t4,")
	j.wait("document.activeElement.closest('dialog footer') && document.activeElement.innerText === 'Undo'")
	j.keys("Enter")
	j.waitText("#toasts", "Undone “clean up”")
	j.took(0, 2)
	if d.read("NOTES.md") == "" {
		t.Error("the undo did not bring the file back")
	}
	j.waitText("#undo .redo .effect", "brings back “clean up”")
	j.keys("r")
	j.waitText("dialog .sentence", "Redoes “clean up”")
	j.wait("document.activeElement.closest('dialog footer') && document.activeElement.innerText === 'Redo'")
	j.keys("Enter")
	j.waitText("#toasts", "Redone “clean up”")
	j.took(0, 4)
}

// A deleted file comes back in at most two clicks from the landing page, also if a later turn is the last one.
func TestADeletedFileComesBackInTwoClicks(t *testing.T) {
	browser := chromiumrig.Start(t)
	for _, width := range widths {
		d := newDemo(t)
		d.segno("redo", "2", "-y")
		s := serve(t, d.command("web", "--no-open"))
		j := d.land(browser, s.URL, width)
		if width < 900 { // a phone shows the timeline first
			j.click(".row", "clean up")
		}
		j.click("#turn .change-actions button", "Bring back NOTES.md")
		j.waitText("#toasts", "NOTES.md came back, as it was at t3.")
		j.took(2, 0)
		if d.read("NOTES.md") == "" || d.read(".env") != "" {
			t.Errorf("%d px: NOTES.md is %q and .env %q", width, d.read("NOTES.md"), d.read(".env"))
		}
		j.click("#toasts button", "Undo")
		j.waitText("#toasts", "Move undone: 1 file was deleted.")

		d.turn(work{prompt: "write the plan", answer: "Written.", files: map[string]string{"plan.md": "# Plan\n"}})
		d.turn(work{prompt: "tidy up", answer: "Tidy.", shell: []string{"rm plan.md"}})
		d.turn(work{prompt: "say something else", answer: "Something.", files: map[string]string{"other.txt": "other\n"}})
		j = d.land(browser, s.URL, width)
		j.click(".row", "tidy up")
		j.click("#turn .change-actions button", "Bring back plan.md")
		j.waitText("#toasts", "plan.md came back, as it was at t1.")
		j.took(2, 0)
		if d.read("plan.md") == "" || d.read("other.txt") == "" {
			t.Errorf("%d px: plan.md is %q and other.txt %q", width, d.read("plan.md"), d.read("other.txt"))
		}
	}
}

// The key b brings back all files that the last turn deleted.
func TestTheKeyBringsBackTheDeletedFiles(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	s := serve(t, d.command("web", "--no-open"))
	j := d.land(chromiumrig.Start(t), s.URL, 1440)
	j.waitText("#turn .deleted-files h3", "3 files deleted")
	j.keys("b")
	j.waitText("#toasts", "3 files came back, as they were at t3.")
	j.took(0, 1)
	if d.read("NOTES.md") == "" || d.read(".env") == "" || d.read("src/greet_test.sh") == "" {
		t.Error("the page reported files that did not come back")
	}
	j.keys("z")
	j.waitText("#toasts", "Move undone: 3 files were deleted.")

	// A turn that deleted nothing has nothing to bring back. The rows move until the graph is that before the move.
	j.wait("[...document.querySelectorAll('.row')].some((e) => e.innerText.includes('clean up') && e.innerText.includes('you are here'))")
	j.click(".row", "write a small")
	j.waitText("#turn h2", "t1")
	j.keys("b")
	j.wait("!document.querySelector('dialog')")
	if d.read("NOTES.md") != "" {
		t.Error("b brought back the files of another turn")
	}
}

// After three undos the graph has one line, the head is at the top, and each group of undone turns is one click or one key
// away. A save of the user stays in view, and is not undone while its file is there.
func TestUndoneTurnsAreFolded(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.write("mine.txt", "mine\n")
	d.segno("redo", "2", "-y")
	d.segno("save", "-m", "my notes")
	for _, name := range []string{"one", "two", "three"} {
		d.segno("undo", "-y")
		d.write(name+".txt", name+"\n")
		d.segno("save", "-m", name)
	}
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText(".row.selected", "(three)")
	p.waitText(".row.selected", "you are here")
	p.wait("[...document.querySelectorAll('.row')].sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)[0].innerText.includes('you are here')")
	p.wait("Math.max(...[...document.querySelectorAll('.row .graph')].map((e) => e.clientWidth)) < 40") // two lanes
	p.waitText(".row", "(my notes)")
	p.waitNo(".row.undone", "(my notes)")
	p.waitNo(".row", "clean up")
	p.click(".row .fold", "undone")
	p.waitText(".row.undone", "clean up")
	p.wait("[...document.querySelectorAll('.row')].sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)[0].innerText.includes('you are here')")
	p.click(".row .fold", "hide")
	p.waitNo(".row", "clean up")

	p.click(".row", "write a small")
	p.keys("ArrowRight")
	p.waitText(".row.undone", "add a test")
	p.keys("ArrowLeft")
	p.waitNo(".row", "add a test")

	p.keys("/")
	p.typing("all clean")
	p.waitHits(".hit", "All clean")
	p.keys("ArrowDown", "Enter")
	p.waitText(".row.selected", "clean up") // a hit in a fold opens it
	p.waitText(".legend summary", "What the marks mean")
}

// A file that exists now is replaced only after a dialog with the difference.
func TestBringBackShowsWhatItReplaces(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	d.write("NOTES.md", "# Mine\n")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.click(".row", "clean up")
	p.click("#turn .change-actions button", "Bring back NOTES.md")
	p.waitText("dialog .sentence", "NOTES.md changes, as it was at t3; the present is saved first.")
	p.waitText("dialog .line.deleted", "# Mine")
	p.click("dialog footer button", "Bring back")
	p.waitText("#toasts", "NOTES.md changed, as it was at t3.")
	p.click("#toasts button", "Undo")
	p.waitText("#toasts", "Move undone")
	if d.read("NOTES.md") != "# Mine\n" {
		t.Errorf("the undo left %q", d.read("NOTES.md"))
	}
}

// The history of a file lists each turn that touched it, from a turn and from a comparison, and brings any state back.
func TestHistoryOfAFile(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "clean up")
	p.click("#turn .change-actions button", "History of NOTES.md")
	p.waitText("#turn h2", "History of NOTES.md")
	p.waitText("#turn header", "The file does not exist now.")
	p.wait("document.querySelectorAll('.touch').length === 2")
	p.waitText(".touch", "deleted")
	p.click(".touch .link", "add a test")
	p.waitText("#turn h2", "t2 add a test")
	p.click("#turn .call summary", "NOTES.md")
	p.click("#turn .call button", "History of NOTES.md")
	p.waitText("#turn h2", "History of NOTES.md")
	p.click(".touch .change-actions button", "Bring back this version")
	p.waitText("#toasts", "NOTES.md came back, as it was at t3.")
	if d.read("NOTES.md") == "" {
		t.Error("the file did not come back")
	}
	p.shoot("history")
}
