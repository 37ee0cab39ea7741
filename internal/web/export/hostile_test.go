package export_test

import (
	"io"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/web/export"
	"github.com/dalsegno/segno/secret"
)

// Finding shortens tests.
type Finding = secret.Finding

func isUTF8(s string) bool { return utf8.ValidString(s) }

// hostileText returns text that a renderer might run, load or obey.
func hostileText() string {
	return strings.Join([]string{
		"</pre></script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "<svg onload=document.title='owned'>",
		"[a](javascript:document.title='owned') ![b](https://example.org/track.png) <javascript:alert(1)>", "[r]: javascript:alert(1)\n\n[r]",
		"[m](  java\tscript:alert(1)) [d](data:text/html,<script>) [v](vbscript:x)", "<iframe src=\"https://example.org\"></iframe>",
		"\x1b]0;title\x07\x1b[31mred\x9b2J", "\u202etxt.exe\u2066 \u200b", "\xff\xfe\x00 invalid", "```\n</code></pre><b>", "`a` `` b ` c", "| a | b |\n|---|---|\n| <b> | \" onclick=x |",
		"> > > > > > > > > > deep", "- a\n  - b\n    - c", "# <h1>", "--></style><style>body{display:none}</style>",
	}, "\n\n")
}

var spans = regexp.MustCompile("`[^`]*`")

// outsideCode returns the lines of Markdown outside code blocks at the left margin.
func outsideCode(text string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), ">"), " ")
		run := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(run) >= 3:
			fence = run
		case fence != "" && len(run) >= len(fence) && line == run:
			fence = ""
		case fence == "" && (strings.HasPrefix(line, "- `") || strings.HasPrefix(line, "Subagent `")): // segno's own lines
			b.WriteString(spans.ReplaceAllString(line, "") + "\n")
		case fence == "":
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestLongLinesAndTextsAreShortened(t *testing.T) {
	size := 1 << 20 // in one line
	if !testing.Short() && soak.IsDrawn(t) {
		size = 10 << 20
	}
	long := strings.Repeat("a[`*_<(", size/7)
	s := made(1, func(int) *export.Turn {
		return &export.Turn{Turn: turns.Turn{Prompt: long, Items: []turns.Item{{Author: turns.Agent, Text: long},
			{Author: turns.Agent, Call: &turns.Call{Tool: "t", Input: encoded(t, long), Result: long, Done: true}}}}}
	})
	for _, format := range []string{"html", "markdown", "otlp"} {
		start := time.Now()
		text := written(t, format, s)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %s", format, took)
		}
		if most := 200 << 20; len(text) > most {
			t.Errorf("%s: %d bytes", format, len(text))
		}
	}
}

// turnCounter counts the turns in memory while an export is written.
type turnCounter struct {
	live, most atomic.Int64
	made       int
}

func (c *turnCounter) turn(int) *export.Turn {
	turn := &export.Turn{Turn: turns.Turn{Prompt: "go on", Items: []turns.Item{{Author: turns.Agent, Text: "Done, **and** `more`."}}},
		Subagents: []export.Subagent{{ID: "a", Calls: []*turns.Call{{Tool: "Bash", Result: "x", Done: true}}}}}
	c.live.Add(1)
	runtime.SetFinalizer(turn, func(*export.Turn) { c.live.Add(-1) })
	if c.made++; c.made%500 == 0 {
		runtime.GC()
		runtime.GC() // a second time, because the first one only starts the finalizers
		c.most.Store(max(c.most.Load(), c.live.Load()))
	}
	return turn
}

func TestALongThreadNeedsTheMemoryOfATurn(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for _, format := range soak.Some(t, 1, append(export.Formats(), "html")...) {
		var c turnCounter
		must(t, export.Write(io.Discard, format, made(5000, c.turn)))
		if c.made < 5000 || c.most.Load() > 600 {
			t.Errorf("%s: %d of %d turns in memory at once", format, c.most.Load(), c.made)
		}
	}
}
