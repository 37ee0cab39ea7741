package export_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/web/export"
)

// A picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestAPageOpensFromTheDisk opens a page with hostile content in a browser, which reports each violation
// of the page's policy, each request and each exception.
func TestAPageOpensFromTheDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a browser")
	}
	hostile := hostileText()
	data, err := base64.StdEncoding.DecodeString(pixel)
	must(t, err)
	s := made(2, func(int) *export.Turn {
		return &export.Turn{Prompt: hostile, Images: []export.Image{{Type: "image/png", Data: data}},
			Items: []export.Item{{Author: export.Agent, Text: "# A title\n\n**bold** and `code`\n\n" + hostile},
				{Author: export.Agent, Call: &export.Call{Tool: hostile, Input: encoded(t, map[string]string{"command": hostile}), Result: hostile, Done: true}}},
			Files: []export.File{{Path: "main.go", Sign: "~", Added: 1, Gone: 1, Diff: []export.Line{{Op: '@', Text: "@ -1 +1 @@"}, {Op: '-', Text: hostile}, {Op: '+', Text: hostile}}}}}
	})
	file := filepath.Join(t.TempDir(), "page.html")
	must(t, os.WriteFile(file, []byte(written(t, "html", s)), 0o600))
	tab := chromiumrig.Start(t).NewTab(t, 390, 800)
	var title, answer string
	var articles, closed, wide, unfolded, images int
	must(t, chromedp.Run(tab, chromedp.Navigate("file://"+file),
		chromedp.Title(&title),
		chromedp.Text(".answer strong", &answer),
		chromedp.Evaluate(`document.querySelectorAll("article").length`, &articles),
		chromedp.Evaluate(`[...document.images].filter((i) => i.complete && i.naturalWidth === 1).length`, &images),
		chromedp.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &wide),
		chromedp.Evaluate(`document.querySelectorAll("details:not([open])").length`, &closed),
		chromedp.Click("#unfold"),
		chromedp.Evaluate(`document.querySelectorAll("details:not([open])").length`, &unfolded)))
	if title != "made" || answer != "bold" || articles != 2 || images != 2 {
		t.Errorf("title %q, answer %q, %d articles, %d images", title, answer, articles, images)
	}
	if closed == 0 || unfolded != 0 {
		t.Errorf("%d parts were folded, and %d after the click", closed, unfolded)
	}
	if wide > 0 {
		t.Errorf("the page is %d pixels wider than a phone", wide)
	}
	if messages := tab.Messages(); len(messages) > 0 {
		t.Errorf("the browser reports:\n%s", strings.Join(messages, "\n"))
	}
}
