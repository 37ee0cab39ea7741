package cli

import (
	"fmt"
	"sync"
	"time"
)

// showAfter is how long a scan runs before a progress bar appears. The bar of a shorter scan would only flicker.
const showAfter = 300 * time.Millisecond

// progressBar shows the progress of a long operation on standard error.
type progressBar struct {
	app   *App
	on    bool
	start time.Time
	verb  string // names a transfer, such as "packing"; "" for a scan
	unit  string // the unit of the count; "" for bytes

	mu    sync.Mutex
	last  time.Time
	drawn bool
}

func (a *App) progress() *progressBar {
	return &progressBar{app: a, on: Terminal(a.Stderr) && a.Getenv("TERM") != "dumb", start: time.Now()}
}

// Transfer replaces the bar by the bar of an operation whose size is known. It returns the function that updates the
// new bar.
func (a *App) Transfer(verb string) func(done, total int64) {
	a.Bar.Erase()
	a.Bar = a.progress()
	a.Bar.verb = verb
	return a.Bar.update
}

// Count is transfer for an operation on a known number of items. If standard error is not a terminal, the returned
// function prints a line for each thousand items.
func (a *App) Count(verb, unit string) func(done, total int64) {
	update := a.Transfer(verb)
	a.Bar.unit = unit
	if a.Bar.on {
		return update
	}
	return func(done, total int64) {
		const every = 1000
		if done%every == 0 && done > 0 && total > every {
			a.Notef("%s", a.Bar.text(done, total, 0))
		}
	}
}

// text describes the progress. A scan has no percentage: it finds files while it reads others.
func (b *progressBar) text(done, total int64, took time.Duration) string {
	if b.verb == "" {
		return "scanning: " + Size(done) + " read"
	}
	if b.unit != "" {
		return fmt.Sprintf("%s: %d of %s", b.verb, done, Plural(int(total), b.unit))
	}
	rate := int64(float64(done) / max(took.Seconds(), 1e-3))
	return fmt.Sprintf("%s: %s of %s, %d %%, %s/s", b.verb, Size(done), Size(total), 100*done/max(total, 1), Size(rate))
}

// update shows the number of bytes read so far. Many goroutines may call it.
func (b *progressBar) update(done, total int64) {
	b.draw(func(took time.Duration) string { return b.text(done, total, took) })
}

// updateApplied shows which part of a move's changes of files is made.
func (b *progressBar) updateApplied(done, total int64) {
	b.draw(func(time.Duration) string { return fmt.Sprintf("changing files: %d %%", 100*done/max(total, 1)) })
}

func (b *progressBar) draw(text func(took time.Duration) string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.on || now.Sub(b.start) < showAfter || now.Sub(b.last) < 50*time.Millisecond {
		return
	}
	b.last, b.drawn = now, true
	fmt.Fprint(b.app.Stderr, "\r\x1b[K"+text(now.Sub(b.start)))
}

// Erase removes the bar, so that the command can write on its line.
func (b *progressBar) Erase() {
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

// Stop erases the bar permanently, because from now on another program draws the screen.
func (b *progressBar) Stop() {
	if b == nil {
		return
	}
	b.Erase()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = false
}
