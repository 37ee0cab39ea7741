package postgres_test

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno/store/postgres"
)

// Many machines share one store: the rows and the bodies are in one database. Package
// store/postgres/gocloud has an example with a bucket.
func ExampleOpen() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, "postgres://agent@db.example.com/agents", postgres.Options{Schema: "agents"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	head, err := store.Head(ctx, "session-123")
	fmt.Println(head.Head, err)
}
