package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// The threads are filtered by a part of their title or directory, and the present thread stays in view.
func TestFilterOfThreads(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	p.wait("document.querySelectorAll('.thread').length === 2")
	p.click("#threads input", "")
	p.typing("TRY-something")
	p.wait("document.querySelectorAll('.thread').length === 1")
	p.waitText(".thread", "try-something-else")
	p.waitText("#timeline h2", "write a small")
	p.typing("x")
	p.waitText("#threads .empty", "No thread matches.")
}

// Rename and Delete are in a menu, by keyboard, too. The button of the menu keeps the focus when the thread gets a turn.
func TestMenuByKeyboard(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.turn(work{prompt: "write a note", answer: "Done.", files: map[string]string{"b.txt": "b\n"}})
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t1 write a note")
	p.waitNo("#timeline button", "Delete")
	p.eval("document.querySelector('#timeline .menu > button').focus()", nil)
	d.turn(work{prompt: "change the note", answer: "Done.", files: map[string]string{"b.txt": "c\n"}})
	p.waitText("#timeline .head-row", "2 turns")
	p.keys("Enter")
	p.wait("document.activeElement.innerText.startsWith('Rename')")
	p.keys("ArrowDown")
	p.wait("document.activeElement.innerText.startsWith('Delete')")
	p.keys("Escape")
	p.wait("document.activeElement === document.querySelector('#timeline .menu > button') && document.activeElement.ariaExpanded === 'false'")
	p.keys("Enter", "Enter")
	p.waitText("dialog h2", "Rename the thread")
}

// Copy and Share write the turn on the server, without secrets.
func TestCopyAndShareATurn(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	const secret = "ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"
	d.turn(work{prompt: "use the token " + secret, answer: "Used.", files: map[string]string{"a.txt": "a\n"}})
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t1 use the token")
	// A test has no clipboard. The page hands the text to the browser in one call.
	p.eval("void (navigator.clipboard.writeText = async (text) => { window.copied = text })", nil)
	p.click("#turn .actions button", "Copy")
	p.waitText("#toasts", "Copied t1 as Markdown.")
	var copied string
	p.eval("window.copied", &copied)
	if !strings.Contains(copied, "use the token") || !strings.Contains(copied, "Used.") || strings.Contains(copied, secret) {
		t.Errorf("the copy is %q", copied)
	}
	p.eval(`void (() => { const create = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => { window.shared = text }); return create(blob) } })()`, nil)
	p.click("#turn .actions button", "Share")
	p.waitText("#toasts", "Saved t1.html")
	p.wait("window.shared")
	var shared string
	p.eval("window.shared", &shared)
	if !strings.Contains(shared, "<html") || strings.Contains(shared, secret) {
		t.Errorf("the page has %d bytes", len(shared))
	}
}

// The borders between the panes move by mouse and by keyboard, and a reload keeps them.
func TestPanesResize(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	width := func() (w float64) {
		p.eval("document.getElementById('threads').getBoundingClientRect().width", &w)
		return w
	}
	before := width()
	p.eval("document.querySelector('.border.threads').focus()", nil)
	p.keys("ArrowRight", "ArrowRight")
	if got := width(); got != before+48 {
		t.Errorf("two presses moved the border by %v", got-before)
	}
	p.drag(".border.threads", -100)
	if got := width(); got != before-52 {
		t.Errorf("the mouse moved the border by %v", got-before-48)
	}
	p.eval("window.isBefore = true; void location.reload()", nil)
	p.wait("!window.isBefore")
	p.waitText("#turn h2", "t2 add a test")
	if got := width(); got != before-52 {
		t.Errorf("after a reload the pane has %v px, not %v", got, before-52)
	}
}

// A store without a thread says how to begin, and makes the demo at one click. Its last turn can be undone at once, and the
// deletion of its thread removes all of it.
func TestEmptyStoreMakesTheDemo(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	temp := t.TempDir()
	if err := (&demo{TB: t, dir: temp}).openStore().Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("segno", "--store", filepath.Join(temp, "store"), "web", "--no-open")
	cmd.Dir, cmd.Env = temp, append(cmd.Environ(), "HOME="+temp, "XDG_DATA_HOME="+temp, "TMPDIR="+temp)
	s := serve(t, cmd)
	browser := chromiumrig.Start(t)
	scratch := func() []string {
		dirs, err := filepath.Glob(filepath.Join(temp, "segno-demo-*"))
		if err != nil {
			t.Fatal(err)
		}
		return dirs
	}
	for _, width := range widths {
		p := openPage(t, browser, s.URL, width, 844)
		p.expected = []string{"404"} // a request about the deleted thread may be under way
		p.waitText("#timeline h2", "Nothing is recorded yet")
		p.waitText("#timeline code", "segno enable claude")
		p.checkLayout("empty")
		p.shoot("empty")
		p.click("#timeline button", "Make the demo")
		p.waitText(".row.selected", "clean up")
		dirs := scratch()
		if len(dirs) != 1 {
			t.Fatalf("the demo made %q", dirs)
		}
		p.waitText("#undo .undo .effect", "removes “clean up”: 3 files come back")
		p.click("#undo button", "Undo last turn")
		p.waitText("#toasts", "Undone “clean up”: 3 files came back.")
		if _, err := os.Stat(filepath.Join(dirs[0], "project", "NOTES.md")); err != nil {
			t.Error(err)
		}
		p.click("#timeline .menu > button", "More about this thread")
		p.click("#timeline [role=menuitem]", "Delete")
		p.waitText("dialog .plan", "the directory of the demo, "+dirs[0]+", is removed")
		p.click("dialog footer button", "Delete")
		p.waitText("#timeline h2", "Nothing is recorded yet")
		if left := scratch(); len(left) > 0 {
			t.Errorf("the deletion left %q", left)
		}
	}
}
