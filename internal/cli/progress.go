package cli

import (
	"fmt"
	"sync"
	"time"
)

// showAfter is the duration of a scan without a progress bar, which would only flicker.
const showAfter = 300 * time.Millisecond

// progressBar shows on standard error how many bytes a long scan has read. It shows no percentage:
// a scan finds files while it reads others.
type progressBar struct {
	app   *app
	verb  string
	on    bool
	start time.Time

	mu    sync.Mutex
	last  time.Time
	drawn bool
}

func (a *app) progress() *progressBar { return a.progressOf("scanning") }

// progressOf returns a progress bar that names what the command does.
func (a *app) progressOf(verb string) *progressBar {
	return &progressBar{app: a, verb: verb, on: terminal(a.Stderr) && a.Getenv("TERM") != "dumb", start: time.Now()}
}

// update shows the number of bytes read so far. Many goroutines may call it.
func (b *progressBar) update(done, _ int64) {
	if !b.on {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.start) < showAfter || now.Sub(b.last) < 50*time.Millisecond {
		return
	}
	b.last, b.drawn = now, true
	fmt.Fprintf(b.app.Stderr, "\r\x1b[K%s: %s read", b.verb, size(done))
}

// erase removes the bar, so that the command can write on its line.
func (b *progressBar) erase() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		b.drawn = false
		fmt.Fprint(b.app.Stderr, "\r\x1b[K")
	}
}
