package timeline_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// TestKeepSessionsLetsOthersLock keeps many sessions for a long time, and another operation that waits for the lock meanwhile
// gets it before all sessions are kept.
func TestKeepSessionsLetsOthersLock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(nil)
		defer store.Close()
		sp := spool.New(dir, vfs.OS)
		tl := timeline.Open(timeline.Config{Store: store, Spool: sp, Now: time.Now})
		// Nothing reads the transcripts of the agent, so each session has an error. A group ends before a repeated session.
		requests := make([]timeline.KeepRequest, 20)
		for i := range requests {
			requests[i] = timeline.KeepRequest{Agent: "other", Source: segno.Source{Session: segno.SessionID(fmt.Sprint(i / 2))}}
		}
		order := make(chan string, len(requests)+1)
		wait := func(ctx context.Context) {
			unlock, err := sp.Lock(ctx, "sessions")
			if err != nil {
				t.Error(err)
				return
			}
			order <- "other"
			unlock()
		}
		if err := tl.KeepSessions(t.Context(), requests, func(r timeline.KeepRequest, _ timeline.Kept, _ error) {
			if len(order) == 0 {
				go wait(t.Context())
			}
			order <- string(r.Source.Session)
			time.Sleep(7 * time.Second)
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		if len(got) != len(requests)+1 || got[len(got)-1] == "other" {
			t.Errorf("the order was %v", got)
		}
	})
}
