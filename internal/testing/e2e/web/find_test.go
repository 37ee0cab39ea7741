package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
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
		j.waitHits(".hit", "docs/guide.md")
		j.wait("document.querySelectorAll('.hit').length === 1")
		j.waitHits(".hit .word.bad", "deleted")
		j.waitHits(".hit .hit-by", "cd docs && rm guide.md")
		j.waitHits(".hit .hit-by", "tidy up")
		j.waitHits(".hits-foot", "1 hit.")
		j.shoot(fmt.Sprint("by-mouse-", width))
		j.click(".hit .hit-text", "docs/guide.md")
		j.waitText("#turn h2", "tidy up")
		j.wait("document.getElementById('turn').checkVisibility()")

		j = d.land(browser, s.URL, width)
		j.keys("/")
		queries++
		j.typing("deleted:guide")
		j.waitHits(".hit", "docs/guide.md")
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
	j.waitHits(".hit", "docs/guide.md")
	j.waitHits(".hit", "NOTES.md")
	j.waitHits(".hit", "and 2 more")
	j.shoot("all-deleted")
	j.keys("Escape")
	j.waitNo(".hits", "")
	for _, command := range []string{"docs && rm", "echo oops >&2"} {
		j.keys("/")
		j.typing(command)
		j.page.click(".chip", "Commands")
		j.waitHits(".hit mark", command)
		j.keys("Escape")
		j.waitNo(".hits", "")
	}
}

// A hit that is a path brings the file back and shows its history, by mouse at a desk and on a phone, and by the arrow keys,
// also from another thread.
func TestAHitBringsItsFileBack(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	browser := chromiumrig.Start(t)
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	s := serve(t, d.command("web", "--no-open"))
	for _, width := range widths {
		j := d.land(browser, s.URL, width)
		j.page.click("#search input", "")
		j.typing("deleted:NOTES")
		j.waitHits(".hits-foot", "1 hit.")
		j.shoot(fmt.Sprint("hit-", width))
		j.click(".hit button", "Bring back NOTES.md")
		j.waitText("#toasts", "NOTES.md came back, as it was at t3.")
		j.waitNo(".hits", "")
		j.took(1, 0)
		if d.read("NOTES.md") == "" {
			t.Errorf("%d px: the file did not come back", width)
		}
		j.click("#toasts button", "Undo")
		j.waitText("#toasts", "Move undone: 1 file was deleted.")
	}

	j := d.land(browser, s.URL, 1440)
	j.click(".thread", "try-something-else")
	j.waitText("#timeline", "Forked from")
	j.keys("/")
	j.run(input.InsertText("deleted:NOTES")) // at once: a search for a part of it would unmark the hit
	j.waitHits(".hits-foot", "1 hit.")
	j.keys("ArrowDown", "ArrowRight")
	j.wait("document.activeElement.innerText === 'Bring back'")
	j.keys("ArrowRight")
	j.wait("document.activeElement.innerText === 'History'")
	j.keys("Enter")
	j.waitText("#turn h2", "History of NOTES.md")
	j.waitText("#turn header", "Thread: write a small greeting program")
	j.keys("/")
	j.keys("ArrowDown", "ArrowRight", "Enter")
	j.waitText("#toasts", "NOTES.md came back, as it was at t3.")
	if d.read("NOTES.md") == "" {
		t.Error("the arrow keys did not bring the file back")
	}
}

// The panel of moves lists each move with its undo. One message is shown at a time, and its undo disappears when the
// thread has moved elsewhere. After the undo of a fork the page shows the source of the fork.
func TestThePanelOfMoves(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	s := serve(t, d.command("web", "--no-open"))
	j := d.land(chromiumrig.Start(t), s.URL, 1440)
	j.expected = []string{"404"} // an event about the forgotten fork may arrive before the answer of the move
	j.waitText("#turn h2", "clean up")
	j.keys("m")
	j.waitText("#turn h2", "Moves")
	j.waitText(".move .subject", "Undo of 2 turns")
	j.waitText(".move .subject", "clean up")
	j.waitText(".move .meta", "via command line")
	j.waitNo(".move .meta", "via page")
	j.shoot("moves")

	// the newest move is the redo of two turns
	j.click(".move button", "Undo")
	j.waitText("#toasts", "Move undone")
	j.waitText("#turn h2", "t2 add a test")
	if d.read("NOTES.md") == "" {
		t.Error("the panel reported an undo that did not happen")
	}
	j.keys("m")
	j.waitText(".move.undone .subject", "Redo of 2 turns")
	j.waitText(".move .meta", "via page")
	j.wait("document.querySelector('.move.undone button.small') === null")
	j.waitText(".move .subject", "Move undone")

	// A second move replaces the message of the first.
	j.keys("Escape")
	j.click(".row", "write a small")
	j.waitText("#turn h2", "t1")
	j.keys("p")
	j.wait("document.activeElement.closest('dialog')")
	j.typing("green")
	j.page.click("dialog footer button", "Pin")
	j.waitText("#toasts", "Pinned")
	j.wait("document.querySelectorAll('.toast').length === 1")

	// a fork, and its undo from the message of the fork
	j.click("#turn .actions button", "Fork")
	j.waitText("dialog .plan", "fork t1")
	j.page.click("dialog footer button", "Fork")
	j.waitText("#toasts", "Forked to")
	j.waitText("#timeline", "Forked from")
	j.wait("document.querySelectorAll('.toast').length === 1")
	j.click("#toasts button", "Undo")
	j.waitText("#toasts", "Move undone")
	j.waitNo("#timeline", "Forked from")
	j.waitText("#timeline h2", "write a small greeting program")
	j.waitText("#turn h2", "t2 add a test")
	j.wait("document.querySelectorAll('.toast').length === 1 && !document.querySelector('.toast.bad')")
	j.waitText("#undo .undo .effect", "removes “add a test")
	j.shoot("fork-undone")

	// the undo of a move expires when the thread moves elsewhere
	j.keys("u")
	j.wait("document.activeElement.closest('dialog footer') && document.activeElement.innerText === 'Undo'")
	j.keys("Enter")
	j.waitText("#toasts button", "Undo")
	d.segno("redo", "-y")
	j.wait("document.querySelector('.toast') && !document.querySelector('.toast button.accent')")
	j.keys("z") // does nothing
	j.waitNo("#toasts", "Move undone")
}

// A request can be cancelled while its answer is being read, as after the undo of a fork. The answer is then no error for the user.
func TestACancelledAnswerIsNoError(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	var started bool
	p.eval(`(() => {
		const answer = { ok: false, status: 404, json: () => Promise.reject(new DOMException("", "AbortError")) };
		import("./api.js").then(({ Api }) => {
			const fetched = window.fetch;
			window.fetch = () => Promise.resolve(answer);
			new Api("").get("threads").catch((err) => { window.failed = err.name; window.fetch = fetched; });
		});
		return true;
	})()`, &started)
	p.wait("window.failed === 'AbortError'")
}

// TestAllDeletedFilesComeBack deletes more files in one turn than the page loads at first. One click brings all of them back.
func TestAllDeletedFilesComeBack(t *testing.T) {
	const n = 700
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	many := map[string]string{}
	for i := range n {
		many[fmt.Sprint("many/", i)] = "x\n"
	}
	d.turn(work{prompt: "make many files", answer: "Made.", files: many})
	d.turn(work{prompt: "remove them", answer: "Removed.", shell: []string{"rm -r many"}})
	s := serve(t, d.command("web", "--no-open"))
	j := d.land(chromiumrig.Start(t), s.URL, 1440)
	j.waitText("#turn h2", "remove them")
	j.waitText(".deleted-files h3", fmt.Sprint(n, " files deleted"))
	j.page.click(".deleted-files button", fmt.Sprint("Bring back all ", n))
	j.waitText("#toasts", fmt.Sprint(n, " files came back"))
	for name, content := range many {
		if got := d.read(name); got != content {
			t.Fatalf("%s has %q", name, got)
		}
	}
}
