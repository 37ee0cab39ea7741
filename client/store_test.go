package client_test

import (
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/store/storetest"
)

// TestStore runs every third test of a store on one behind the API.
func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	open := func(t *testing.T) segno.Store {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		address, token, stop := serve(t, web.Config{Store: db, Kind: "sqlite"})
		s, err := client.New(address+"/#"+token, "")
		if err != nil {
			t.Fatal(err)
		}
		return &throughAPI{Store: s, local: db, stop: stop}
	}
	storetest.TestSome(t, 3, open, storetest.Options{Clock: clock, EarlyObjects: true})
}
