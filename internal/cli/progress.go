package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// showAfter is how long something may take before a bar is worth its flicker.
const showAfter = 300 * time.Millisecond

// progressBar draws on standard error while something takes long. Its update is
// given bytes and may be called from many goroutines.
type progressBar struct {
	app   *app
	title string
	on    bool
	start time.Time

	mu   sync.Mutex
	last time.Time
}

func (a *app) progress(title string) *progressBar {
	return &progressBar{app: a, title: title, on: terminal(a.Stderr) && a.Getenv("TERM") != "dumb", start: time.Now()}
}

func (b *progressBar) update(done, total int64) {
	if !b.on {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	finished := total > 0 && done >= total
	if now.Sub(b.start) < showAfter || (now.Sub(b.last) < 50*time.Millisecond && !finished) {
		return
	}
	b.last = now
	if finished {
		fmt.Fprint(b.app.Stderr, "\r\x1b[K")
		return
	}
	const cells = 30
	full := 0
	if total > 0 {
		full = int(done * cells / total)
	}
	fmt.Fprintf(b.app.Stderr, "\r\x1b[K%s [%s%s] %s of %s", b.title, strings.Repeat("█", full), strings.Repeat("░", cells-full), size(done), size(total))
}
