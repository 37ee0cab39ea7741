package archive

import "sync"

// A meter counts the bytes of content that an operation has processed, also in the middle of a large
// file, and reports them. It is an io.Writer that several goroutines may write to.
type meter struct {
	report func(done, total int64) // or nil
	total  int64
	mu     sync.Mutex
	done   int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.add(int64(len(p)))
	return len(p), nil
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	if m.report != nil {
		m.report(m.done, m.total)
	}
}
