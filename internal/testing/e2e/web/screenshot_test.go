package web_test

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
)

var screenshotFile = flag.String("screenshot", "", "write the screenshot of docs/web.md into this `file`")

// screenshot is the image in docs/web.md.
const screenshot = "../../../../docs/web.png"

const screenshotWidth, screenshotHeight = 1440, 640

// TestScreenshot makes the screenshot of the demo if -screenshot is set. Otherwise it checks the existing
// one.
func TestScreenshot(t *testing.T) {
	if *screenshotFile != "" {
		takeScreenshot(t)
		return
	}
	data, err := os.ReadFile(screenshot)
	if err != nil {
		t.Fatal(err)
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width != screenshotWidth || config.Height != screenshotHeight {
		t.Errorf("%s: %v, %d × %d; make it with 'make screenshot'", screenshot, err, config.Width, config.Height)
	}
}

func takeScreenshot(t *testing.T) {
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, screenshotWidth, screenshotHeight)
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}))
	p.unfold()
	p.click(".row", "rename it")
	p.waitText("#turn h2", "t3")
	p.waitText(".line.added", "HELLO")
	// The directory of a test would differ in each run.
	p.eval(fmt.Sprintf(`(() => { const rename = () => { const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
			while (all.nextNode()) if (all.currentNode.data.includes(%[1]s)) all.currentNode.data = all.currentNode.data.replaceAll(%[1]s, "/tmp/segno-demo") };
		rename(); new MutationObserver(rename).observe(document.body, { subtree: true, childList: true, characterData: true }) })()`, quote(d.dir)), nil)
	p.waitText("header p", "/tmp/segno-demo/project")
	var image []byte
	p.run(chromedp.CaptureScreenshot(&image))
	if err := os.WriteFile(*screenshotFile, image, 0o644); err != nil {
		t.Fatal(err)
	}
}
