package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// hostileText has every kind of markup that must stay text.
const hostileText = "<script>window.pwned = 1</script><img src=x onerror='window.pwned=2'><svg onload='window.pwned=3'>" +
	"\n\n[click](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) ![i](http://203.0.113.1/x.png)" +
	"\n\n\x1b]0;owned\x07\x1b[31mred \u202egnp.exe\u202c \u2066isolated\u2069\n\n```html\n</code></pre><script>window.pwned = 6</script>\n```\n" +
	"\n| a | b |\n|---|---|\n| <b onmouseover=window.pwned=7>x</b> | `</td>` |\n\n> [x]: javascript:window.pwned=8\n\n<a href=\"javascript:window.pwned=9\">y</a>"

// A store in which every text is hostile runs no script and loads nothing. The browser reports no
// violation of the content security policy, because the page never makes an element that would violate
// it.
func TestHostileStoreStaysInert(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	long := strings.Repeat("<i>x</i>", 10<<20/8)
	d.writeThread("hostile", hostileText, 3, func(i int) turn {
		x := turn{prompt: hostileText, answer: hostileText, calls: []call{{"<img src=x onerror=window.pwned=10>", hostileText, hostileText}}}
		if i == 2 {
			x.prompt, x.answer, x.calls = long, long, []call{{"Bash", long, long}}
		}
		return x
	})
	names := []string{"<img src=x onerror=window.pwned=11>.txt", "\u202egnp.js", "a\x1b[31m.txt", "x.svg", "'\"&amp;.md"}
	for _, name := range names {
		d.write(name, `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="window.pwned=12"><script>window.pwned=13</script></svg>`+"\n")
	}
	if err := os.WriteFile(filepath.Join(d.dir, "project", "long.txt"), []byte(long), 0o644); err != nil {
		t.Fatal(err)
	}
	d.segno("save", "-m", "<script>window.pwned=14</script>")
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "save")
	for n, name := range []string{"x.svg", "long.txt", "img src", "gnp.js", "[31m"} {
		p.click("#turn .change summary", name)
		p.wait(fmt.Sprintf("[...document.querySelectorAll('#turn .change details[open]')].filter((d) => d.querySelector('.diff-scroll .text')).length === %d", n+1))
	}
	p.wait("document.querySelector('#turn .images img').naturalWidth > 0")
	p.shoot("files")

	p.click(".thread", "<script>")
	p.waitText("#turn h2", "t3")
	p.eval("document.querySelectorAll('#turn details').forEach((d) => { d.open = true })", nil)
	p.waitText("#turn .call-body", "window.pwned = 6")
	p.waitText("#turn .markdown", "\u27e8U+202E\u27e9")
	p.shoot("turn")
	p.keys("j")
	p.waitText("#turn h2", "t2")
	p.waitText("#turn .more", "10 MiB")
	for range 3 {
		p.eval("document.getElementById('turn').scrollTop = 1e9", nil)
	}
	p.keys("/")
	p.typing("pwned")
	p.waitHits(".hit", "pwned")
	p.shoot("search")
	p.keys("Escape")
	p.keys("k")
	p.waitText("#turn h2", "t3")
	p.keys("p")
	p.wait("document.activeElement.closest('dialog')")
	p.typing("<img src=x onerror=window.pwned=15>")
	p.click("dialog footer button", "Pin")
	p.waitText(".row .pin", "<img")

	var found struct {
		Pwned any
		Bad   []string
	}
	p.eval(`({ Pwned: window.pwned ?? null, Bad: [
		...[...document.querySelectorAll("script:not([src='main.js']), iframe, object, embed, [style*=url], img:not([src^='blob:'])")].map((e) => e.outerHTML.slice(0, 100)),
		...[...document.querySelectorAll("a[href]")].filter((a) => !/^(https?:|mailto:|#)/.test(a.getAttribute("href"))).map((a) => a.outerHTML.slice(0, 100)),
		...[...document.querySelectorAll("*")].flatMap((e) => e.getAttributeNames().filter((n) => n.startsWith("on")).map((n) => e.tagName + " has " + n)),
	] })`, &found)
	if found.Pwned != nil || len(found.Bad) > 0 {
		t.Errorf("a script ran (%v), or an element could run one: %q", found.Pwned, found.Bad)
	}
}
