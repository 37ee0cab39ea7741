package proxy

import (
	"context"
	"slices"
	"sync"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// waits lets the goroutine that reads the client cancel a wait of a session's goroutine. It
// is needed because the step that handles the cancel is behind that wait in the session's
// mailbox.
type waits struct {
	mu        sync.Mutex
	cancel    context.CancelFunc // of the present wait, nil if there is none
	cancelled bool               // a session/cancel is in the mailbox
	requests  []string           // the keys of the requests whose cancel is in the mailbox
}

// wait returns a context for a wait of the session's goroutine. A cancel from the client
// ends the context. Until the caller calls end, the mailbox has no limit.
func (s *session) wait() (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(s.proxy.ctx)
	w := &s.waits
	w.mu.Lock()
	if w.cancel = cancel; w.cancelled {
		cancel()
	}
	w.mu.Unlock()
	restore := s.box.liftLimit()
	return ctx, func() {
		restore()
		w.mu.Lock()
		w.cancel = nil
		w.mu.Unlock()
		cancel()
	}
}

// setCancel cancels the present wait, and those that begin before the session's goroutine
// handles the cancel and calls setCancel(false). Any goroutine may call it.
func (w *waits) setCancel(cancelled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancelled = cancelled; cancelled && w.cancel != nil {
		w.cancel()
	}
}

// setCancelled records that the cancel of a request is in the mailbox, or has been handled.
// Any goroutine may call it.
func (w *waits) setCancelled(key string, cancelled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancelled {
		w.requests = append(w.requests, key)
	} else if i := slices.Index(w.requests, key); i >= 0 {
		w.requests = slices.Delete(w.requests, i, i+1)
	}
}

// isCancelled reports whether the cancel of a request is in the mailbox.
func (w *waits) isCancelled(m acp.Message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.requests, m.CanonicalID())
}
