package storetest_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

func TestNotebook(t *testing.T) {
	clock := storetest.NewClock()
	open := func(*testing.T) segno.Saver { return newNotebook(clock.Now) }
	storetest.TestSaver(t, open, storetest.SaverOptions{Clock: clock})
}
