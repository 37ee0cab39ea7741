package storetest_test

import (
	"testing"

	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/storetest"
)

func TestMapSaver(t *testing.T) {
	clock := storetest.NewClock()
	open := func(*testing.T) saver.Saver { return newMapSaver(clock.Now) }
	storetest.TestSaver(t, open, storetest.SaverOptions{Clock: clock})
}

// TestSaverWithHistory runs the tests of a [storetest.Traveler] without access to its store.
func TestSaverWithHistory(t *testing.T) {
	again := func(_ *testing.T, s saver.Saver) saver.Saver { return saver.New(s.(*saver.StoreSaver).Store) }
	open := func(*testing.T) saver.Saver { return saver.New(memory.New(nil)) }
	storetest.TestSaver(t, open, storetest.SaverOptions{Reopen: again, Another: again})
}
