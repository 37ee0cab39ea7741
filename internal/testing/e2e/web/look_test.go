package web_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// A first look: threads, the graph, a turn, its diff; then the same with the keyboard.
func TestLookAtTheTimeline(t *testing.T) {
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText(".thread[aria-current=true]", "write a small greeting program")
	p.waitText(".row.selected", "add a test and a note about it")
	p.waitNo(".row", "clean up")
	p.unfold()
	p.waitText(".row.undone", "clean up")
	p.waitText("#turn h2", "t2 add a test")
	p.waitText("#turn .markdown", "Added a test.")
	p.wait("!location.href.includes(sessionStorage.getItem('segno-token'))")

	p.click(".row", "clean up")
	p.waitText("#turn h2", "t4")
	p.click("#turn .change summary", "NOTES.md")
	p.waitText(".line.deleted", "# Notes")
	p.shoot("diff")

	p.keys("G")
	p.waitText("#turn h2", "(the beginning)")
	p.keys("k")
	p.waitText("#turn h2", "t1")
	p.keys("g", "j")
	p.waitText("#turn h2", "t4")
	p.keys("?")
	p.waitText("dialog[open]", "this help")
	p.keys("Escape")
	p.wait("!document.querySelector('dialog') && document.activeElement.id === 'rows'")
}

// unfold shows the undone turns of the demo.
func (p *page) unfold() {
	p.Helper()
	p.click(".row .fold", "2 undone")
	p.waitText(".row", "clean up")
}

// The page compares two checkpoints, then one of them with the current files. Search finds a turn by
// its words.
func TestCompareAndSearch(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	d.write("mine.txt", "mine\n")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	p.keys("c")
	p.waitText(".compare-bar", "Choose the checkpoint")
	p.unfold()
	p.click(".row", "clean up")
	p.waitText("#turn h2", "t2 \u2192 t4")
	p.waitText("#turn .changes", "shout.sh")
	p.shoot("compared")
	p.click(".compare-bar button", "the files now")
	p.waitText("#turn h2", "t2 \u2192 the files now")
	p.waitText("#turn .changes", "mine.txt")
	p.waitText("#turn .line.added", "mine")
	p.keys("Escape")
	p.waitText("#turn h2", "t4")

	p.keys("/")
	p.typing("shout")
	p.waitHits(".hit", "rename it")
	p.keys("ArrowDown", "Enter")
	p.waitText("#turn h2", "t3")
}
