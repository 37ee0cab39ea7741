package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
)

// The sizes of the benchmark.
const (
	manyTurns    = 5000
	callsOfTurn  = 6
	diffLines    = 25000 // all changed: 50,000 lines of the diff
	answerBytes  = 5 << 20
	eventsPerSec = 50
)

// largeTurn is one of the turns of the benchmark, about 3 KB with its calls.
func largeTurn(i int) turn {
	t := turn{prompt: fmt.Sprintf("prompt %d: make the limiter per-route and test it", i), answer: strings.Repeat(fmt.Sprintf("Answer **%d** with `code`. ", i), 20)}
	for n := range callsOfTurn {
		t.calls = append(t.calls, call{"Bash", fmt.Sprintf("go test ./pkg%d/... -run Test%d", n, i), strings.Repeat("ok  example.com/pkg 0.4s\n", 12)})
	}
	if i == manyTurns {
		t.answer = strings.Repeat("A paragraph of the long answer, with **bold** words and `code`.\n\n", answerBytes/66)
	}
	return t
}

// BenchmarkSizes prints the times for which a user waits on a long thread, and those of a page that
// has an element for everything. SEGNO_LIVE sets the duration of the live updates.
func BenchmarkSizes(b *testing.B) {
	for b.Loop() {
		measureSizes(b)
	}
}

func measureSizes(b *testing.B) {
	live := 20 * time.Second
	if text := os.Getenv("SEGNO_LIVE"); text != "" {
		var err error
		if live, err = time.ParseDuration(text); err != nil {
			b.Fatal(err)
		}
	}
	d := newDemo(b)
	var old, changed strings.Builder
	for i := range diffLines {
		fmt.Fprintf(&old, "line %d of the old text\n", i)
		fmt.Fprintf(&changed, "line %d of the new text\n", i)
	}
	d.write("big.txt", old.String())
	d.segno("save")
	d.write("big.txt", changed.String())
	d.segno("save")
	d.writeThread("large", "a large thread", manyTurns, largeTurn)
	s := serve(b, d.command("web", "--no-open"))
	browser := chromiumrig.Start(b)
	const usable = `(done) => { const look = () => document.querySelector(".row .subject") && document.querySelector("#turn h2") ? done(performance.now()) : setTimeout(look, 4); look(); }`
	first := openPage(b, browser, s.URL+"/large", 1440, 900).measure(usable)
	p := openPage(b, browser, s.URL+"/large", 1440, 900)
	page := sizes{usable: p.measure(usable)}
	page.jump = p.measure(`(done) => { const rows = document.getElementById("rows"), start = performance.now(); rows.scrollTop = rows.scrollHeight / 2;
		const look = () => document.querySelector(".row") && !document.querySelector(".row.loading") && rows.querySelector(".row .subject").innerText.match(/prompt 2[45]/) ? requestAnimationFrame(() => done(performance.now() - start)) : requestAnimationFrame(look); requestAnimationFrame(look); }`)
	page.frame = p.measure(scrollBy("document.getElementById('rows')"))

	plain := plainPage(b, browser)
	p.run(cdppage.BringToFront())
	fmt.Printf("\n%-52s %10s %10s\n", fmt.Sprintf("%d turns, %d calls", manyTurns, manyTurns*callsOfTurn), "page", "plain DOM")
	fmt.Printf("%-52s %7.0f ms\n", "usable, when the server reads the thread first", first)
	fmt.Printf("%-52s %7.0f ms %7.0f ms\n", "usable", page.usable, plain.usable)
	fmt.Printf("%-52s %7.0f ms %7.0f ms\n", "jump to the middle", page.jump, plain.jump)
	fmt.Printf("%-52s %7.0f ms %7.0f ms\n", "worst frame of 120 screens", page.frame, plain.frame)

	p.keys("g")
	p.waitText("#turn .more", "Show more")
	answer := p.measure(`(done) => { const pane = document.getElementById("turn"); let worst = 0, last = performance.now(), left = 120;
		const step = () => { const now = performance.now(); worst = Math.max(worst, now - last); last = now; const more = pane.querySelector(".more"); more?.scrollIntoView(); left-- > 0 && more ? requestAnimationFrame(step) : done(worst); }; step(); }`)
	fmt.Printf("%-52s %7.0f ms\n", "worst frame while an answer of 5 MB is read", answer)
	p = openPage(b, browser, s.URL, 1440, 900)
	p.waitText("#turn .change .path", "big.txt")
	opened := p.measure(`(done) => { const start = performance.now(), item = document.querySelector("#turn .change details"); item.open = false; setTimeout(() => { item.open = true;
		const look = () => item.querySelector(".line .text") ? done(performance.now() - start) : requestAnimationFrame(look); look(); }, 50); }`)
	scroll := p.measure(scrollBy("document.querySelector('.diff-scroll')"))
	fmt.Printf("%-52s %7.0f ms\n%-52s %7.0f ms\n", "a diff of 50,000 lines opens", opened, "worst frame of 120 screens of it", scroll)

	before, after := p.live(d, live)
	fmt.Printf("%-52s %7.1f MB %6.1f MB after\n\n", fmt.Sprintf("heap before %v of %d updates a second", live, eventsPerSec), before, after)
	b.ReportMetric(page.usable, "usable-ms")
	b.ReportMetric(page.jump, "jump-ms")
	b.ReportMetric(page.frame, "frame-ms")
}

// sizes are the times of one page in ms.
type sizes struct {
	usable, jump, frame float64
}

// measure runs a JavaScript function that returns a number through a callback.
func (p *page) measure(function string) (ms float64) {
	p.Helper()
	p.eval("new Promise("+function+")", &ms)
	return ms
}

// scrollBy scrolls an element by 120 screens, one a frame, and returns the longest frame.
func scrollBy(element string) string {
	return `(done) => { const e = ` + element + `; e.scrollTop = 0; let worst = 0, left = 120, last = 0;
		requestAnimationFrame(function step(now) { if (last) worst = Math.max(worst, now - last); last = now; e.scrollTop += e.clientHeight; left-- > 0 ? requestAnimationFrame(step) : done(worst); }); }`
}

// plainPage measures a page that has elements for all turns and calls.
func plainPage(b *testing.B, browser *chromiumrig.Browser) sizes {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>plain</title><body>")
		for i := manyTurns - 1; i > 0; i-- {
			t := largeTurn(i)
			fmt.Fprintf(w, "<section><h2>t%d</h2><p>%s</p><div>%s</div>", i, html.EscapeString(t.prompt), strings.ReplaceAll(t.answer, "`code`", "<code>code</code>"))
			for _, c := range t.calls {
				fmt.Fprintf(w, "<details open><summary>%s <code>%s</code></summary><pre>%s</pre></details>", c.tool, c.input, strings.ReplaceAll(c.result, "\n", "<br>"))
			}
			fmt.Fprint(w, "</section>")
		}
	}))
	defer server.Close()
	p := &page{TB: b, tab: browser.NewTab(b, 1440, 900), patience: 5 * time.Minute}
	start := time.Now()
	p.run(chromedp.Navigate(server.URL))
	plain := sizes{usable: p.measure(`(done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))`)}
	if took := float64(time.Since(start).Milliseconds()); took > plain.usable {
		plain.usable = took
	}
	plain.jump = p.measure(`(done) => { const start = performance.now(), e = document.scrollingElement; e.scrollTop = e.scrollHeight / 2; requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))); }`)
	plain.frame = p.measure(scrollBy("document.scrollingElement"))
	return plain
}

// live measures the heap of the page in MB before and after live updates.
func (p *page) live(d *demo, last time.Duration) (before, after float64) {
	p.Helper()
	const heap = `(done) => { gc(); gc(); setTimeout(() => done(performance.memory.usedJSHeapSize / 1e6), 200); }`
	d.writeThread("live", "a live thread", 1, largeTurn)
	p.click(".thread", "a live thread")
	p.waitText("#turn h2", "t1")
	before = p.measure(heap)
	d.commitFor("live", last)
	p.waitText("#connection", "live")
	return before, p.measure(heap)
}
