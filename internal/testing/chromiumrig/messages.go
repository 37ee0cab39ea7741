package chromiumrig

import (
	"slices"
	"sync"
)

// messages collects texts that a browser reports from another goroutine.
type messages struct {
	mu    sync.Mutex
	texts []string
}

func (m *messages) add(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = append(m.texts, text)
}

func (m *messages) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.texts)
}
