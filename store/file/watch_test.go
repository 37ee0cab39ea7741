package file

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/belltest"
)

// TestOwnCommitsNotify waits without polling, and returns after a commit of the same Store.
func TestOwnCommitsNotify(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if err := belltest.Hears(t.Context(), s, &s.bells); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
