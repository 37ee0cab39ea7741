package gocloud_test

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/gocloud"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
)

// Rows are in a database, and large objects are in a bucket.
func ExampleBucket() {
	ctx := context.Background()
	bucket, err := blob.OpenBucket(ctx, "file:///srv/segno")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bucket.Close()
	store, err := postgres.Open(ctx, "postgres://agent@db.example.com/agents", postgres.Options{Bucket: gocloud.Bucket(bucket)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	head, err := store.Head(ctx, "session-123")
	fmt.Println(head.Head, err)
}
