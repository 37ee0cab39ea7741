package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
)

// page is a tab with segno's page. Its methods fail the test if the awaited event does not happen.
type page struct {
	testing.TB
	tab      *chromiumrig.Tab
	patience time.Duration // for one event on a busy machine
	// expected are parts of browser messages that the test causes, such as failed requests to a server
	// that ended.
	expected []string
}

// openPage opens an address in a new tab. At the end of the test it checks that the browser reported
// no exception, no failed request and no violation of the content security policy.
func openPage(t testing.TB, browser *chromiumrig.Browser, url string, width, height int64) *page {
	t.Helper()
	p := &page{TB: t, tab: browser.NewTab(t, width, height), patience: 2 * time.Minute}
	t.Cleanup(p.checkMessages)
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(countRequests).Do(ctx)
		return err
	}), chromedp.Navigate(url))
	return p
}

// countRequests keeps window.requests, the number of answers that a page waits for. The stream of events has no end.
const countRequests = `(() => {
	const fetched = window.fetch;
	window.requests = 0;
	window.fetch = async (...request) => {
		if (/\/events\b/.test(String(request[0]))) return fetched(...request);
		window.requests++;
		try {
			return await fetched(...request);
		} finally {
			setTimeout(() => window.requests--); // after the page has read the answer
		}
	};
})()`

func (p *page) checkMessages() {
	for _, m := range p.tab.Messages() {
		if !slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(m, part) }) {
			p.Errorf("the browser reported: %s", m)
		}
	}
	if p.Failed() {
		p.shoot("failed")
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, p.patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// eval evaluates an expression of JavaScript, and waits for it if it is a promise.
func (p *page) eval(expression string, result any) {
	p.Helper()
	p.run(chromedp.Evaluate(expression, result, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
}

// wait waits until a condition in JavaScript holds.
func (p *page) wait(condition string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, p.patience)
	defer cancel()
	loop := fmt.Sprintf(`new Promise((done) => { const look = () => { let is = false; try { is = %s } catch {} is ? done(true) : setTimeout(look, 15) }; look() })`, condition)
	look := func() error {
		return chromedp.Run(ctx, chromedp.Evaluate(loop, nil, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	}
	err := look()
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "Inspected target navigated or closed") {
		err = look() // the condition is about the next document
	}
	if err != nil {
		var text string
		_ = chromedp.Run(p.tab, chromedp.Evaluate("document.body.innerText", &text)) // the tab may be closed
		p.Fatalf("%s does not hold: %v\nthe page shows:\n%s", condition, err, text)
	}
}

// waitText waits until the element of a selector contains a text.
func (p *page) waitText(selector, text string) {
	p.Helper()
	p.wait(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))", quote(selector), quote(text)))
}

// waitHits is waitText for the hits of a search. A search ends after a moment, also before it has searched the whole store: waitHits then
// searches further, as the page offers.
func (p *page) waitHits(selector, text string) {
	p.Helper()
	p.wait(fmt.Sprintf(`([...document.querySelectorAll(".hits-foot button")].find((e) => e.innerText === "Search further")?.click(),
		[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s)))`, quote(selector), quote(text)))
}

// waitNo waits until no visible element of a selector contains a text.
func (p *page) waitNo(selector, text string) {
	p.Helper()
	p.wait(fmt.Sprintf("![...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))", quote(selector), quote(text)))
}

// click clicks on the middle of the first visible element of a selector whose text or accessible name
// contains a text, when all answers that the page waits for have come, or 3 s have passed, and the element has stopped moving.
// Another element must not cover it. If the page moves the element between the look and the click, and the click hits nothing
// that reacts to it, click tries again, as a user would. The tab comes to the front: a hidden one draws no frames.
func (p *page) click(selector, text string) {
	p.Helper()
	p.run(cdppage.BringToFront())
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => e.checkVisibility() && !e.disabled && (e.innerText + (e.ariaLabel ?? "")).includes(%s))`, quote(selector), quote(text))
	for {
		p.wait("Boolean(" + find + ")")
		var at struct {
			X, Y    float64
			Covered string
			Gone    bool
		}
		p.eval(fmt.Sprintf(`(async () => {
			const find = () => %s, frame = () => new Promise(requestAnimationFrame), place = (e) => JSON.stringify(e?.getBoundingClientRect());
			const start = performance.now();
			let e = find();
			e?.scrollIntoView({ block: "nearest" });
			for (let before = "", still = 0; still < 3; before = place(e)) {
				await frame();
				e = find();
				still = before === place(e) && (window.requests === 0 || performance.now() - start > 3000) ? still + 1 : 0;
			}
			if (!e) return { Gone: true };
			window.clicked = "";
			document.addEventListener("click", ({ target }) => {
				const hit = e.contains(target) || find()?.contains(target); // the page may have drawn the element again
				window.clicked = hit ? "" : target.closest("a, button, input, label, summary, [role], .row")?.outerHTML.slice(0, 200) ?? "nothing";
			}, { once: true, capture: true });
			const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
			return { X: x, Y: y, Covered: top && e.contains(top) ? "" : top?.outerHTML.slice(0, 200) ?? "nothing" } })()`, find), &at)
		if at.Gone {
			continue
		}
		if at.Covered != "" {
			p.Fatalf("the element %s with %q is covered by %s", selector, text, at.Covered)
		}
		p.run(chromedp.MouseClickXY(at.X, at.Y))
		var hit string
		p.eval(`window.clicked ?? ""`, &hit)
		if hit == "" {
			return
		}
		if hit != "nothing" {
			p.Fatalf("the element %s with %q moved away, and the click hit %s", selector, text, hit)
		}
	}
}

// drag moves an element sideways by a number of pixels with the mouse.
func (p *page) drag(selector string, by float64) {
	p.Helper()
	var at struct{ X, Y float64 }
	p.eval(fmt.Sprintf(`(() => { const r = document.querySelector(%s).getBoundingClientRect(); return { X: r.x + r.width / 2, Y: r.y + r.height / 2 } })()`, quote(selector)), &at)
	p.run(input.DispatchMouseEvent(input.MousePressed, at.X, at.Y).WithButton(input.Left).WithClickCount(1),
		input.DispatchMouseEvent(input.MouseMoved, at.X+by, at.Y).WithButton(input.Left).WithButtons(1),
		input.DispatchMouseEvent(input.MouseReleased, at.X+by, at.Y).WithButton(input.Left).WithClickCount(1))
}

// keys presses keys one after the other: characters, or names of keys such as "Escape".
func (p *page) keys(keys ...string) {
	p.Helper()
	for _, key := range keys {
		text := key
		if len([]rune(key)) > 1 {
			text = map[string]string{"Enter": "\r"}[key]
		}
		// Like an event of a keyboard, one event has both the key and its text, so that an action that
		// prevents the default also prevents the text.
		down := input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(text).WithUnmodifiedText(text)
		if code := map[string]int64{"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}[key]; code != 0 {
			down = down.WithWindowsVirtualKeyCode(code).WithCode(key)
		}
		p.run(down, input.DispatchKeyEvent(input.KeyUp).WithKey(key))
	}
}

// typing presses the keys of a text.
func (p *page) typing(text string) {
	p.Helper()
	p.keys(strings.Split(text, "")...)
}

// shoot writes an image of the page if SEGNO_SHOTS names a directory for them.
func (p *page) shoot(name string) {
	dir := os.Getenv("SEGNO_SHOTS")
	if dir == "" {
		return
	}
	var image []byte
	if err := chromedp.Run(p.tab, chromedp.CaptureScreenshot(&image)); err != nil {
		p.Log(err)
		return
	}
	name = strings.ReplaceAll(p.Name(), "/", "-") + "-" + name + ".png"
	if err := os.WriteFile(filepath.Join(dir, name), image, 0o644); err != nil {
		p.Error(err)
	}
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return string(data)
}
