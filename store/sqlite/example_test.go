package sqlite_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/sqlite"
)

// A store that only who has the key can read.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "segno")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, file := context.Background(), filepath.Join(dir, "agent.db")

	key := make([]byte, 32) // a program keeps it elsewhere, and gives it each time
	rand.Read(key)
	store, err := sqlite.Open(ctx, file, sqlite.Options{Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sealed:", store.Close() == nil)

	_, err = sqlite.Open(ctx, file, sqlite.Options{})
	fmt.Println(segno.KindOf(err), "without the key")
	fmt.Println(segno.HintOf(err))
	// Output:
	// sealed: true
	// refused without the key
	// set Options.Key to the key the store was made with
}
