package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
)

// TestAClockBehindThatOfTheStore acquires a lease that has already ended by the clock of the store. The prompt must not be parked, as it
// is after an error that each worker would have.
func TestAClockBehindThatOfTheStore(t *testing.T) {
	store := memory.New(func() time.Time { return time.Now().Add(time.Hour) })
	defer store.Close()
	if _, err := store.Commit(t.Context(), segno.Commit{ID: "c", Thread: "t", Create: &segno.Thread{ID: "t"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(t.Context(), store, "t", time.Minute); segno.KindOf(err) != segno.KindIO || !strings.Contains(err.Error(), "clock") {
		t.Errorf("the error is of kind %q: %v", segno.KindOf(err), err)
	}
}
