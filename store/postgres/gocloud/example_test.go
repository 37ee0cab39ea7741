package gocloud_test

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/gocloud"
	"gocloud.dev/blob"
)

// Rows are in a database, and large objects are in a bucket. The program also imports the driver of its bucket,
// here _ "gocloud.dev/blob/gcsblob".
func ExampleBucket() {
	ctx := context.Background()
	bucket, err := blob.OpenBucket(ctx, "gs://agents")
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
