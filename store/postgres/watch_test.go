package postgres

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/notifytest"
)

// TestOwnCommitsNeedNoPolling verifies that a commit of the same Store wakes a waiting caller without polling.
func TestOwnCommitsNeedNoPolling(t *testing.T) {
	s := openStore(t, Options{})
	if err := notifytest.Check(t.Context(), s, &s.watch.Notifier); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
