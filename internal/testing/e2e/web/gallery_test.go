package web_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
)

var galleryDir = flag.String("gallery", "", "write images of the page in all sizes and themes into this `directory`")

// TestGallery writes images of the page for a review by eye, if -gallery is set.
func TestGallery(t *testing.T) {
	if *galleryDir == "" {
		return
	}
	if err := os.MkdirAll(*galleryDir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := newDemo(t)
	d.segno("redo", "2", "-y")
	d.long()
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#undo", "removes")
	for _, size := range [][2]int64{{1440, 900}, {768, 1024}, {390, 844}} {
		p.run(emulation.SetDeviceMetricsOverride(size[0], size[1], 1, false))
		for _, theme := range []string{"light", "dark"} {
			p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
			p.gallery(d, fmt.Sprintf("%d-%s", size[0], theme), size[0] < 900)
		}
	}
}

// gallery writes images of the views of the page.
func (p *page) gallery(d *demo, name string, narrow bool) {
	p.Helper()
	shoot := func(view string) {
		var image []byte
		p.run(chromedp.CaptureScreenshot(&image))
		if err := os.WriteFile(filepath.Join(*galleryDir, name+"-"+view+".png"), image, 0o644); err != nil {
			p.Fatal(err)
		}
	}
	p.eval("document.body.dataset.pane = 'timeline'; document.getElementById('rows').focus(); document.getElementById('rows').scrollTop = 0", nil)
	p.keys("g")
	p.wait("document.querySelector('.row.selected')?.id.endsWith(String(document.querySelector('#turn h2') && document.querySelector('.row.selected').ariaSetSize - 1))")
	shoot("landing")
	if narrow {
		p.eval("document.body.dataset.pane = 'threads'", nil)
		shoot("threads")
		p.eval("document.body.dataset.pane = 'timeline'", nil)
	}
	p.click(".row .fold", "undone")
	p.waitText(".row.undone", "")
	shoot("unfolded")
	p.click(".row .fold", "hide")
	p.waitNo(".row.undone", "")
	p.eval("document.querySelector('.legend').open = true; document.getElementById('rows').scrollTop = 350", nil)
	p.click(".row", "clean up")
	p.waitText("#turn h2", "clean up")
	shoot("deletes")
	p.click("#turn .change-actions button", "History")
	p.waitText("#turn h2", "History of")
	shoot("history")
	p.keys("u")
	p.waitText("dialog .sentence", "Undoes")
	p.wait("document.querySelector('dialog .line .text')")
	shoot("undo")
	p.keys("Escape")
	p.wait("!document.querySelector('dialog')")
	before := d.read("limit/limiter.go")
	d.write("limit/limiter.go", "package limit\n\n// Mine.\n")
	p.keys("u")
	p.waitText("dialog .conflicts", "limiter.go")
	shoot("conflict")
	p.keys("Escape")
	p.wait("!document.querySelector('dialog')")
	d.write("limit/limiter.go", before)
	p.keys("?")
	p.waitText("dialog", "this help")
	shoot("help")
	p.keys("Escape")
	p.wait("!document.querySelector('dialog')")
	p.keys("/")
	p.eval("document.activeElement.select()", nil)
	p.typing("deleted:")
	p.waitHits(".hit", "NOTES.md")
	p.keys("ArrowDown")
	shoot("search")
	p.keys("Escape")
	p.waitNo(".hits", "")
	p.eval("document.querySelector('#search input').value = ''", nil)
	p.keys("m")
	p.waitText(".move .meta", "via command line")
	shoot("moves")
	p.eval("document.querySelector('.legend').open = false", nil)
}
