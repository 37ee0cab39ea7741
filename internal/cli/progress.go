package cli

import (
	"fmt"
	"sync"
	"time"
)

// showAfter is how long something may take before its progress is worth the flicker.
const showAfter = 300 * time.Millisecond

// progressBar shows on standard error how much a scan has read, while it takes long.
// It shows no share of a total: a scan finds files while it reads others.
type progressBar struct {
	app   *app
	title string
	on    bool
	start time.Time

	mu    sync.Mutex
	last  time.Time
	drawn bool
}

func (a *app) progress(title string) *progressBar {
	return &progressBar{app: a, title: title, on: terminal(a.Stderr) && a.Getenv("TERM") != "dumb", start: time.Now()}
}

// update is given the bytes read so far. It may be called from many goroutines.
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
	fmt.Fprintf(b.app.Stderr, "\r\x1b[K%s: %s read", b.title, size(done))
}

// erase makes the line free for what the command has to say.
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
