package postgres

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/belltest"
)

// TestOwnCommitsAreHeardOf has somebody wait who listens and does not look by himself.
func TestOwnCommitsAreHeardOf(t *testing.T) {
	s := openStore(t, Options{})
	if err := belltest.Hears(t.Context(), s, &s.watch.bells); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
