package web_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// At each width, nothing scrolls sideways, no button is outside of the page and no two buttons overlap.
// A narrow page shows one pane, and the back button leads from the turn to the threads.
func TestLayoutAtThreeWidths(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1920, 1080)
	p.waitText("#turn h2", "t2 add a test")
	for _, size := range [][2]int64{{1920, 1080}, {1024, 768}, {390, 844}} {
		p.run(emulation.SetDeviceMetricsOverride(size[0], size[1], 1, false))
		for _, pane := range []string{"threads", "timeline", "turn"} {
			p.eval(fmt.Sprintf("document.body.dataset.pane = %q", pane), nil)
			p.checkLayout(fmt.Sprintf("%d %s", size[0], pane))
		}
	}
	p.eval("document.body.dataset.pane = 'threads'", nil)
	p.click(".thread", "write a small")
	p.wait("document.body.dataset.pane === 'timeline'")
	p.unfold()
	p.click(".row", "clean up")
	p.waitText("#turn h2", "t4")
	p.shoot("phone")
	p.click("#back", "")
	p.wait("document.getElementById('rows').checkVisibility()")
	p.click("#back", "")
	p.wait("document.querySelector('.thread').checkVisibility() && !document.getElementById('rows').checkVisibility()")
}

func (p *page) checkLayout(where string) {
	p.Helper()
	var faults []string
	p.eval(`(() => {
		const faults = [], shown = [...document.querySelectorAll("button, input, h2")].filter((e) => e.checkVisibility() && getComputedStyle(e).visibility !== "hidden" && !e.closest(".rows"));
		if (document.documentElement.scrollWidth > innerWidth) faults.push("the page scrolls sideways: " + document.documentElement.scrollWidth);
		for (const pane of document.querySelectorAll(".pane")) if (pane.checkVisibility() && pane.scrollWidth > pane.clientWidth) faults.push(pane.id + " scrolls sideways: " + pane.scrollWidth + " > " + pane.clientWidth);
		const boxes = shown.map((e) => [e, e.getBoundingClientRect()]);
		for (const [e, r] of boxes) if (r.width === 0 || r.left < -0.5 || r.right > innerWidth + 0.5) faults.push(e.outerHTML.slice(0, 80) + " lies at " + r.left + " to " + r.right);
		for (const [a, x] of boxes) for (const [b, y] of boxes) {
			if (a === b || a.contains(b) || b.contains(a) || a.tagName === "H2" || b.tagName === "H2") continue;
			if (x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1) faults.push(a.outerHTML.slice(0, 80) + " overlaps " + b.outerHTML.slice(0, 80));
		}
		return faults;
	})()`, &faults)
	for _, f := range faults {
		p.Errorf("%s: %s", where, f)
	}
}

// The page is usable with a screen reader: it has landmarks, names and roles of controls, an order of
// the focus, and readable texts in both themes.
func TestAccessibility(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "t2 add a test")
	tree := p.accessible()
	for _, want := range []string{
		"navigation Threads", "main ", "region Timeline", "region Turn", "search ", "combobox Search the store", "listbox Checkpoints, newest first",
		"option turn 2, add a test and a note about it, demo", "button Undo…", "button Fork files and chat…", "toolbar Moves",
		"button Keyboard help", "button Colours: as the system", "heading Prompt", "status ",
	} {
		if !tree.has(want) {
			t.Errorf("the accessibility tree has no %q", want)
		}
	}
	for node := range tree {
		switch node {
		case "button ", "link ", "combobox ", "textbox ", "checkbox ", "option ", "image ":
			t.Errorf("a control has no name: %q", node)
		}
	}
	p.checkContrast("light")
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	p.checkContrast("dark")

	p.eval("document.querySelector('.skip').focus()", nil)
	var order []string
	for len(order) < 5 {
		p.keys("Tab")
		var at string
		p.eval("document.activeElement.closest('.skip, #search, #threads, #timeline, #turn')?.id ?? 'bar'", &at)
		if !slices.Contains(order, at) {
			order = append(order, at)
		}
	}
	if want := []string{"search", "bar", "threads", "timeline", "turn"}; !slices.Equal(order, want) {
		t.Errorf("the order of the focus is %q, want %q", order, want)
	}
	p.eval("document.querySelector('#turn .actions button').focus()", nil)
	p.keys("Enter")
	p.waitText("dialog h2", "Undo t2")
	if tree := p.accessible(); !tree.has("dialog Undo t2") {
		t.Error("the dialog has no name")
	}
	p.keys("Escape")
	p.wait("document.activeElement === document.querySelector('#turn .actions button')")
}

// nodes are the roles and names of an accessibility tree.
type nodes map[string]bool

// has reports whether a node begins with a role and a name.
func (n nodes) has(want string) bool {
	for node := range n {
		if len(node) >= len(want) && node[:len(want)] == want {
			return true
		}
	}
	return false
}

// accessible returns the accessibility tree.
func (p *page) accessible() nodes {
	p.Helper()
	found := nodes{}
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	// The typed call of this version of chromedp does not know all names of properties.
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
	}))
	for _, n := range tree.Nodes {
		if !n.Ignored {
			found[fmt.Sprintf("%v %v", n.Role.Value, n.Name.Value)] = true
		}
	}
	return found
}

// checkContrast checks each visible text against the colour behind it.
func (p *page) checkContrast(theme string) {
	p.Helper()
	var faults []string
	p.eval(`(() => {
		const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
		const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
		const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return rgb(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "black" : "white"); };
		const faults = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let t; (t = texts.nextNode()); ) {
			const e = t.parentElement;
			if (!t.data.trim() || !e.checkVisibility({ opacityProperty: true }) || e.closest("noscript, .skip, :disabled")) continue;
			const a = light(rgb(getComputedStyle(e).color)), b = light(ground(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
			if (ratio < 4.5) faults.add(ratio.toFixed(2) + " " + e.className + " " + t.data.slice(0, 40));
		}
		return [...faults];
	})()`, &faults)
	for _, f := range faults {
		p.Errorf("%s: contrast %s", theme, f)
	}
}
