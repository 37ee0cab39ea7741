package kv

import (
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/notifytest"
)

func TestCommitsNotifyWaitingCallers(t *testing.T) {
	s, err := Open(t.Context(), NewMap(time.Now), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := notifytest.Check(t.Context(), s, &s.notifier); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
