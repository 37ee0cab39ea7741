package markdown_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno/internal/web/export/markdown"
)

func TestHTMLRendersWhatAgentsWrite(t *testing.T) {
	for source, want := range map[string]string{
		"# Title #":                               "<h1>Title</h1>",
		"a **b** *c* __d__ _e_ ~~f~~":             "<p>a <strong>b</strong> <em>c</em> <strong>d</strong> <em>e</em> <del>f</del></p>",
		"snake_case_name 2 * 3 * 4":               "<p>snake_case_name 2 * 3 * 4</p>",
		"`a <b>` and ``c ` d``":                   "<p><code>a &lt;b&gt;</code> and <code>c ` d</code></p>",
		"```go\na < b\n\n# no title\n```":         "<pre><code>a &lt; b\n\n# no title\n</code></pre>",
		"~~~\nopen":                               "<pre><code>open\n</code></pre>",
		"- one\n- two\n  - three":                 "<ul>\n<li>one</li>\n<li><p>two</p>\n<ul>\n<li>three</li>\n</ul>\n</li>\n</ul>",
		"3. c\n4. d":                              "<ol start=\"3\">\n<li>c</li>\n<li>d</li>\n</ol>",
		"> q\n> r":                                "<blockquote>\n<p>q\nr</p>\n</blockquote>",
		"a\n---":                                  "<p>a</p>\n<hr>",
		"| a | b |\n|--|:-:|\n| 1 | 2 \\| 3 |":    "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>2 | 3</td></tr>\n</table>",
		"[t](https://example.org/?a=1&b=2 \"x\")": `<p><a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer nofollow">t</a></p>`,
		"see https://example.org/x.":              `<p>see <a href="https://example.org/x" rel="noopener noreferrer nofollow">https://example.org/x</a>.</p>`,
		"[**b**](main.go:12)":                     "<p>[<strong>b</strong>](main.go:12)</p>",
		"![p](https://example.org/p.png)":         `<p><a href="https://example.org/p.png" rel="noopener noreferrer nofollow">image: p</a></p>`,
		"\\*no\\* <b>":                            "<p>*no* &lt;b&gt;</p>",
	} {
		if got := strings.TrimSpace(markdown.HTML(source)); got != want {
			t.Errorf("%q:\n got %q\nwant %q", source, got, want)
		}
	}
}

func TestInertKeepsTextAndRemovesWhatActs(t *testing.T) {
	for source, want := range map[string]string{
		"# Title":                                "### Title",
		"a <b>c</b> `<d>`":                       "a &lt;b>c&lt;/b> `<d>`",
		"```\n<a>\n```\n<b>":                     "```\n<a>\n```\n&lt;b>",
		"```\nopen":                              "```\nopen\n```",
		"[a](javascript:x) [b](https://e.org/x)": "[a]\\(javascript:x) [b](https://e.org/x)",
		"![p](https://e.org/p.png)":              "\\![p](https://e.org/p.png)",
		"[r]: javascript:x":                      "[r]\\: javascript:x",
		"[`r]: javascript:x//`":                  "[`r]\\: javascript:x//`",
		"` open\n`<b>`":                          "` open\n`&lt;b>`",
		"- ```\n  x\n<b>":                        "- ```\n  x\n&lt;b>",
		"- a\n  ```\n<b>\n  ```\n  <c>":          "- a\n  ```\n&lt;b>\n  ```\n  &lt;c>",
		"[x](main.go#L1)":                        "[x](main.go#L1)",
	} {
		if got := markdown.Inert(source); got != want {
			t.Errorf("%q:\n got %q\nwant %q", source, got, want)
		}
	}
}

func TestHostileShapesTakeLinearTime(t *testing.T) {
	if testing.Short() {
		return // it takes a second
	}
	for _, piece := range []string{"[", "](", "*a ", "**a", "`", "``` ", "> ", "- ", "<", "_", "[a](", "![", "|", "1. ", "~~~", "\\", "h", "http://", "[]:", "# "} {
		for _, source := range []string{strings.Repeat(piece, 1<<17/len(piece)), strings.Repeat(piece+"\n", 1<<16/len(piece))} {
			start := time.Now()
			markdown.HTML(source)
			markdown.Inert(source)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%q: %s", piece, took)
			}
		}
	}
}

var (
	tags    = regexp.MustCompile(`<[^>]*>`)
	allowed = regexp.MustCompile(`^(</?(h[1-6]|p|pre|code|blockquote|ul|ol|li|table|tr|th|td|em|strong|del|a)>|<hr>|<ol start="[0-9]{1,9}">|` +
		`<a href="(https?://|mailto:)[^"<>\s]*" rel="noopener noreferrer nofollow">)$`)
)

// checkHTML reports an element that the page may not have, or one that is not closed in order.
func checkHTML(t *testing.T, source, out string) {
	t.Helper()
	var open []string
	for _, x := range tags.FindAllString(out, -1) {
		if !allowed.MatchString(x) {
			t.Fatalf("%q has %q", source, x)
		}
		name := strings.Trim(strings.Fields(x)[0], "</>")
		switch {
		case name == "hr":
		case !strings.HasPrefix(x, "</"):
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			t.Fatalf("%q: %s closes %v", source, x, open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 || strings.Count(out, "<") != len(tags.FindAllString(out, -1)) || !utf8.ValidString(out) {
		t.Fatalf("%q: open %v in %q", source, open, out)
	}
}

func FuzzHTML(f *testing.F) {
	for _, x := range []string{"# a\n\n**b *c* d** [x](https://e.org)", "- a\n  > b\n    1. c\n```\nd", "|a|b|\n|-|-|\n|c|", "*a **b* c**", "[a *b](http://x) c*", "\xff\u202e<"} {
		f.Add(x)
	}
	f.Fuzz(func(t *testing.T, source string) { checkHTML(t, source, markdown.HTML(source)) })
}

// escapedPair is a character that a backslash makes plain text.
var escapedPair = regexp.MustCompile(`\\.`)

func FuzzInert(f *testing.F) {
	for _, x := range []string{"<b>", "```\n<b>\n```", "`<b>`", "[a](javascript:x)", "![a](b)", "> ```\n<c>", "- a\n\n  ```\n  x\n```\n<b>", "[a]:\njavascript:x", "[a](jAvAsCript)", "\\](jAvAsCript:", "[a\\\\](javascript:x)", "]\\0(jAvAsCript:"} {
		f.Add(x)
	}
	f.Fuzz(func(t *testing.T, source string) {
		out := markdown.Inert(source)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\x00\x1b\u202e") {
			t.Fatalf("%q: %q", source, out)
		}
		// Without backticks and tildes there is no code, so no active construct may be left.
		if strings.ContainsAny(source, "`~") {
			return
		}
		if strings.Contains(out, "<") || strings.Contains(strings.ToLower(escapedPair.ReplaceAllString(out, "x")), "](javascript:") {
			t.Fatalf("%q: %q", source, out)
		}
	})
}
