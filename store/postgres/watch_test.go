package postgres

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/notifytest"
)

// TestOwnCommitsAreHeardOf has somebody wait who listens and does not look by himself.
func TestOwnCommitsAreHeardOf(t *testing.T) {
	s := openStore(t, Options{})
	if err := notifytest.Check(t.Context(), s, &s.watch.notifier); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
