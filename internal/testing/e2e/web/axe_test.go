package web_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// axe finds no fault in any view, in both themes, at a desk and on a phone. Its rule about labels that lack their visible
// text is experimental, so it is off unless a caller asks for it.
func TestAxeFindsNoFault(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	file, err := agentrig.InstallAxe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	d.segno("pin", "t1", "green")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#undo .undo .effect", "removes")
	p.eval(string(source)+"; 0", nil)
	p.axe("landing")
	p.click("#turn .change summary", "NOTES.md")
	p.waitText(".line.deleted", "# Notes")
	p.axe("a difference")
	p.keys("/")
	p.typing("notes")
	p.waitHits(".hit", "NOTES.md")
	p.axe("search")
	p.keys("Escape")
	p.keys("u")
	p.waitText("dialog .sentence", "Undoes")
	p.axe("the dialog of a move")
	p.keys("Escape")
	p.click("#turn .change-actions button", "History")
	p.waitText("#turn h2", "History of")
	p.axe("the history of a file")
	p.keys("m")
	p.waitText(".move .subject", "Undo of 2 turns")
	p.axe("the list of moves")
	p.run(emulation.SetDeviceMetricsOverride(390, 844, 1, false))
	for _, pane := range []string{"threads", "timeline", "turn"} {
		p.eval(fmt.Sprintf("document.body.dataset.pane = %q", pane), nil)
		p.axe("a phone with the pane " + pane)
	}
}

// axe runs axe on the page in both themes.
func (p *page) axe(view string) {
	p.Helper()
	for _, theme := range []string{"light", "dark"} {
		p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
		var found struct {
			Faults []string
			Passes int
		}
		p.eval(`axe.run(document, { rules: { "label-content-name-mismatch": { enabled: true } } }).then((r) => ({ Passes: r.passes.length,
			Faults: r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200))) }))`, &found)
		for _, f := range found.Faults {
			p.Errorf("%s, %s: %s", view, theme, f)
		}
		if found.Passes == 0 {
			p.Errorf("%s, %s: axe checked nothing", view, theme)
		}
	}
}
