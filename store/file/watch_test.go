package file

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/belltest"
)

// TestOwnCommitsAreHeardOf has somebody wait who listens and does not look by himself.
func TestOwnCommitsAreHeardOf(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if err := belltest.Hears(t.Context(), s, &s.bells); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
