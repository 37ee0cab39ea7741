package file

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/notifytest"
)

// TestOwnCommitsNotify waits without polling, and returns after a commit of the same Store.
func TestOwnCommitsNotify(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if err := notifytest.Check(t.Context(), s, &s.notifier); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
