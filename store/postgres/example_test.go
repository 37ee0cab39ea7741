package postgres_test

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno/store/postgres"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
)

// A store of many machines: rows in a database, what is large in a bucket.
func ExampleOpen() {
	ctx := context.Background()
	bucket, err := blob.OpenBucket(ctx, "file:///srv/segno")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bucket.Close()
	store, err := postgres.Open(ctx, "postgres://agent@db.example.com/agents", postgres.Options{Bucket: bucket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	head, err := store.Head(ctx, "session-123")
	fmt.Println(head.Head, err)
}
