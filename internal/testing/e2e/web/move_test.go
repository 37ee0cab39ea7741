package web_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// Undo with the mouse, then undo of the undo from the message; the same with the keyboard.
func TestUndoAndItsUndo(t *testing.T) {
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")

	p.click("#turn .actions button", "Undo")
	p.waitText("dialog .plan", "NOTES.md")
	p.click("dialog footer button", "Undo")
	p.waitText("#toasts", "Undone “add a test and a note about it”: 2 files were deleted.")
	p.waitText("#turn h2", "t1")
	p.wait("document.activeElement?.closest('dialog') === null && !document.querySelector('dialog')")
	if d.read("NOTES.md") != "" || !strings.Contains(d.segno("op", "log"), "undo") {
		t.Error("the page reported an undo that did not happen")
	}
	p.waitText(".row .fold", "3 undone")
	p.shoot("undone")

	p.click("#toasts button", "Undo")
	p.waitText("#toasts", "Move undone")
	p.waitText("#turn h2", "t2")
	if !strings.Contains(d.read("NOTES.md"), "# Notes") {
		t.Errorf("the undo of the undo left %q", d.read("NOTES.md"))
	}

	p.keys("u")
	p.wait("document.activeElement.closest('dialog footer') && document.activeElement.innerText === 'Undo'")
	p.keys("Enter")
	p.waitText("#turn h2", "t1")
	p.keys("z")
	p.waitText("#turn h2", "t2")
	if !strings.Contains(d.read("NOTES.md"), "# Notes") {
		t.Errorf("the undo of the second undo left %q", d.read("NOTES.md"))
	}
}

// A file that the user changed since is a conflict. The page shows it, and overwrites it only if the user
// decides so.
func TestUndoWithAConflict(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	d.write("NOTES.md", "# My notes\n\nMine.\n")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	p.keys("u")
	p.waitText("dialog .conflicts", "NOTES.md")
	p.waitText("dialog .conflicts .patch", "My notes")
	p.shoot("conflict")
	p.keys("Escape")
	p.wait("!document.querySelector('dialog')")
	if d.read("NOTES.md") != "# My notes\n\nMine.\n" {
		t.Error("a cancelled undo changed the file")
	}
	p.keys("u")
	p.click("dialog label", "Overwrite them")
	p.click("dialog footer button", "Undo")
	p.waitText("#turn h2", "t1")
	if d.read("NOTES.md") != "" {
		t.Errorf("the conflict was not overwritten: %q", d.read("NOTES.md"))
	}
	p.keys("z")
	p.waitText("#toasts", "Move undone")
	p.waitText(".row.selected", "(not by a turn)")
	if d.read("NOTES.md") != "# My notes\n\nMine.\n" {
		t.Errorf("the undo of the undo left %q", d.read("NOTES.md"))
	}
}

// The menu of an older turn undoes that turn alone. The newer one stays, and the message has the undo.
func TestUndoOfAnOldTurnAlone(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	d.turn(work{prompt: "write the license", files: map[string]string{"LICENSE": "free\n"}})
	d.turn(work{prompt: "write a readme", files: map[string]string{"README": "read me\n"}})
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.click("#turn .menu > button", "More about this checkpoint")
	p.waitNo("#turn [role=menuitem]", "Undo only this turn") // it is the newest
	p.keys("Escape")
	p.click(".row", "write the license")
	p.waitText("#turn h2", "write the license")
	p.click("#turn .menu > button", "More about this checkpoint")
	p.click("#turn [role=menuitem]", "Undo only this turn")
	p.waitText("dialog .sentence", "Undoes only “write the license”: newer turns and the conversation stay; 1 file is deleted")
	p.click("dialog footer button", "Undo")
	p.waitText("#toasts", "Undone only “write the license”: 1 file was deleted.")
	if d.read("LICENSE") != "" || d.read("README") != "read me\n" {
		t.Errorf("the undo left %q and %q", d.read("LICENSE"), d.read("README"))
	}
	p.click("#toasts button", "Undo")
	p.waitText("#toasts", "Move undone")
	if d.read("LICENSE") != "free\n" {
		t.Error("the undo of the undo did not bring the file back")
	}
}

// A list of threads that was requested before a move, and arrives after it, does not end the undo of the move.
func TestASlowListDoesNotEndAnUndo(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#undo .undo .effect", "removes “add a test")
	var is bool
	p.eval(`(() => {
		const fetched = window.fetch;
		window.slow = true;
		window.fetch = async (...request) => {
			const response = await fetched(...request);
			if (window.slow && String(request[0]).includes("/threads?")) await new Promise((done) => { window.release = done; });
			return response;
		};
		return true;
	})()`, &is)
	d.segno("pin", "@", "early") // the page reads the list
	p.wait("window.release")
	p.eval("!(window.slow = false)", &is)
	p.click("#undo button", "Undo last turn")
	p.waitText("#toasts button", "Undo")
	p.eval(`new Promise((done) => {
		new MutationObserver(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))).observe(document.getElementById("threads"), { subtree: true, childList: true });
		window.release();
	})`, &is)
	p.click("#toasts button", "Undo")
	p.waitText("#toasts", "Move undone")
}

// A path with a conflict can be brought back, and has its history, before the move and after it.
func TestAConflictCanBeBroughtBack(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	d.write("NOTES.md", "# My notes\n\nMine.\n")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	p.keys("u")
	p.click("dialog .conflicts button", "History of NOTES.md")
	p.waitText("#turn h2", "History of NOTES.md")
	p.wait("!document.querySelector('dialog')")

	p.keys("u")
	p.waitText("dialog .conflicts", "NOTES.md")
	p.click("dialog footer button", "Undo")
	p.waitText("#toasts", "1 file with changes of yours left alone")
	if d.read("NOTES.md") != "# My notes\n\nMine.\n" {
		t.Error("the undo overwrote a conflict")
	}
	p.click("#toasts button", "1 conflict")
	p.waitText("dialog h2", "Left as they are")
	p.waitText("dialog .conflict .patch", "My notes")
	p.shoot("left")
	p.click("dialog .conflict button", "Remove NOTES.md") // before its turn, there was no such file
	p.waitText("dialog h2", "Remove NOTES.md")
	p.waitText("dialog .line.deleted", "My notes")
	p.click("dialog footer button", "Remove")
	p.waitText("#toasts", "NOTES.md was deleted")
	if d.read("NOTES.md") != "" {
		t.Error("the page reported a removal that did not happen")
	}
	p.keys("z")
	p.waitText("#toasts", "Move undone")
	if d.read("NOTES.md") != "# My notes\n\nMine.\n" {
		t.Errorf("the undo of the removal left %q", d.read("NOTES.md"))
	}
}

// Restore of one tier and of some paths, fork, pin, rename and delete, each from its preview.
func TestOtherMoves(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")

	p.unfold()
	p.click(".row", "clean up")
	p.waitText("#turn h2", "t4")
	p.keys("R")
	p.click("dialog label", "Files only")
	p.click("dialog textarea", "")
	p.typing("NOTES.md")
	p.waitText("dialog .plan", "1 file")
	p.click("dialog footer button", "Restore")
	p.waitText("#toasts", "NOTES.md was deleted, as at t4.")
	if d.read("NOTES.md") != "" || d.read("src/greet_test.sh") == "" {
		t.Error("restore of a path changed another one, or not this one")
	}
	p.keys("z")
	p.waitText("#toasts", "Move undone")

	p.click(".row", "write a small")
	p.waitText("#turn h2", "t1")
	p.keys("p")
	p.waitText("dialog h2", "Pin t1")
	p.wait("document.activeElement.closest('dialog')")
	p.typing("green")
	p.click("dialog footer button", "Pin")
	p.waitText(".row .pin", "green")
	p.waitText("#turn .pins", "green")
	p.click("#turn .pins button", "")
	p.click("dialog footer button", "Remove")
	p.waitNo(".row .pin", "green")

	p.click("#timeline .menu > button", "More about this thread")
	p.click("#timeline [role=menuitem]", "Rename")
	p.wait("document.activeElement.closest('dialog')")
	p.eval("document.activeElement.select()", nil)
	p.typing("A better title")
	p.click("dialog footer button", "Rename")
	p.waitText("#timeline h2", "A better title")

	p.click("#turn .actions button", "Fork")
	p.waitText("dialog .plan", "fork t1")
	p.click("dialog footer button", "Fork")
	p.waitText("#toasts", "Forked to")
	p.waitText("#timeline", "Forked from")
	p.waitText(".thread[aria-current=true]", "t1")
	p.shoot("forked")

	p.click("#timeline .menu > button", "More about this thread")
	p.click("#timeline [role=menuitem]", "Delete")
	p.waitText("dialog .plan", "delete")
	p.click("dialog footer button", "Delete")
	p.waitText("#toasts", "Thread deleted")
	p.wait("document.querySelectorAll('.thread').length === 2")
}

// The differences of a plan load after the dialog has opened. A click at a button must not meet another place by then.
func TestTheButtonsOfADialogStay(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	var moved bool
	p.eval(`(() => {
		window.heights = new Set();
		new MutationObserver(() => {
			const apply = document.querySelector("dialog footer button.accent");
			if (apply && !apply.disabled) window.heights.add(Math.round(apply.getBoundingClientRect().y));
		}).observe(document.body, { subtree: true, childList: true, attributes: true });
		return false;
	})()`, &moved)
	p.click("#turn .actions button", "Undo")
	p.waitText("dialog .plan", "# Notes")
	p.waitText("dialog .plan", "#!/bin/sh")
	p.eval("window.heights.size !== 1", &moved)
	if moved {
		t.Error("the button that makes the move has moved")
	}
}
