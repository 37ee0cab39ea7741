package kv_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/notifytest"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

func TestCommitsNotifyWaitingCallers(t *testing.T) {
	s, err := kv.Open(t.Context(), kvtest.NewMap(time.Now), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := notifytest.Check(t.Context(), s, kv.NotifierOf(s)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
