package storetest_test

import (
	"testing"

	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/storetest"
)

func TestNotebook(t *testing.T) {
	clock := storetest.NewClock()
	open := func(*testing.T) saver.Saver { return newNotebook(clock.Now) }
	storetest.TestSaver(t, open, storetest.SaverOptions{Clock: clock})
}

// TestSaverWithHistory holds a saver to the clauses of one that has every ability,
// with no look at what is beneath.
func TestSaverWithHistory(t *testing.T) {
	again := func(_ *testing.T, s saver.Saver) saver.Saver { return saver.New(s.(*saver.StoreSaver).Store) }
	storetest.TestSaver(t, func(*testing.T) saver.Saver { return saver.New(memory.New(nil)) }, storetest.SaverOptions{Reopen: again, Another: again})
}
