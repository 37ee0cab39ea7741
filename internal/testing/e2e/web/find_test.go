package web_test

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
)

// One query answers which turn deleted a file, by mouse and by keyboard, at a desk and on a phone. A shell command in a
// subdirectory deleted it, and a later turn wrote about it.
func TestWhichTurnDeletedMyFileIsOneQuery(t *testing.T) {
	browser := chromiumrig.Start(t)
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	d.turn(work{prompt: "write the guide", answer: "Written.", files: map[string]string{"docs/guide.md": "# Guide\n", "docs/other.md": "other\n"}})
	d.turn(work{prompt: "tidy up", answer: "Tidy.", shell: []string{"ls", "cd docs && rm guide.md"}})
	d.turn(work{prompt: "where is docs/guide.md?", answer: "I do not know where docs/guide.md is.", shell: []string{"echo oops >&2"}})
	s := serve(t, d.command("web", "--no-open"))
	for _, width := range widths {
		queries := 0
		j := d.land(browser, s.URL, width)
		j.page.click("#search input", "")
		j.click(".chip", "Deleted")
		queries++
		j.typing("guide.md")
		j.waitText(".hits li", "docs/guide.md")
		j.wait("document.querySelectorAll('.hits li').length === 1")
		j.waitText(".hits li .word.bad", "deleted")
		j.waitText(".hits li .hit-by", "cd docs && rm guide.md")
		j.waitText(".hits li .hit-by", "tidy up")
		j.waitText(".hits footer", "1 hit.")
		j.shoot(fmt.Sprint("by-mouse-", width))
		j.click(".hits li", "docs/guide.md")
		j.waitText("#turn h2", "tidy up")
		j.wait("document.getElementById('turn').checkVisibility()")

		j = d.land(browser, s.URL, width)
		j.keys("/")
		queries++
		j.typing("deleted:guide")
		j.waitText(".hits li", "docs/guide.md")
		j.wait("document.querySelector('.chip input[value=deleted]').checked")
		j.keys("Enter")
		j.waitText("#turn h2", "tidy up")
		j.wait("document.getElementById('turn').checkVisibility()")
		if queries != 2 { // one each
			t.Errorf("%d px: the answer took %d queries, more than one each", width, queries)
		}
	}

	// The name may be forgotten, and a command is found as it was typed.
	j := d.land(browser, s.URL, 1440)
	j.page.click("#search input", "")
	j.click(".chip", "Deleted")
	j.waitText(".hits li", "docs/guide.md")
	j.waitText(".hits li", "NOTES.md")
	j.waitText(".hits li", "and 2 more")
	j.shoot("all-deleted")
	j.keys("Escape")
	j.waitNo(".hits", "")
	for _, command := range []string{"docs && rm", "echo oops >&2"} {
		j.keys("/")
		j.typing(command)
		j.page.click(".chip", "Commands")
		j.waitText(".hits li mark", command)
		j.keys("Escape")
		j.waitNo(".hits", "")
	}
}
