package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// A plan with more paths than a preview lists is shown with its full size.
func TestALargePlan(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	if err := os.Mkdir(filepath.Join(d.dir, "project", "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	const files = 1200
	for i := range files {
		d.write(fmt.Sprintf("many/%d.txt", i), "text\n")
	}
	d.segno("save", "-m", "many files")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.click(".row", "add a test")
	p.waitText("#turn h2", "t2 add a test")
	p.keys("R")
	p.waitText("dialog .plan", "1,201 files") // the directory counts, too
	p.waitText("dialog .plan", "and 1001 more")
}
