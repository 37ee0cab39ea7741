package threadlog_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/notifytest"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// TestOwnCommitsNotify waits without polling, and returns after a commit of the same Store.
func TestOwnCommitsNotify(t *testing.T) {
	s, err := file.Open(t.Context(), t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := notifytest.Check(t.Context(), s, threadlog.NotifierOf(s.Store)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
