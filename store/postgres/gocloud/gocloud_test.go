package gocloud

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/dalsegno/segno/store/postgres"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
)

func TestBucket(t *testing.T) {
	for name, open := range map[string]func() (*blob.Bucket, error){
		"memory":    func() (*blob.Bucket, error) { return memblob.OpenBucket(nil), nil },
		"directory": func() (*blob.Bucket, error) { return fileblob.OpenBucket(t.TempDir(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			testBucket(t, Bucket(inner))
		})
	}
}

func testBucket(t *testing.T, b postgres.Bucket) {
	ctx := t.Context()
	for _, name := range []string{"segno/a/1", "segno/a/2", "segno/b/3"} {
		if err := b.Put(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(ctx, "segno/a/1", []byte("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Put of a name that exists returned %v", err)
	}
	if data, err := b.Get(ctx, "segno/a/1"); err != nil || string(data) != "segno/a/1" {
		t.Errorf("Get returned %q, %v", data, err)
	}
	var names []string
	for name, err := range b.List(ctx, "segno/a/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if got := fmt.Sprint(names); got != "[segno/a/1 segno/a/2]" {
		t.Errorf("List returned %s", got)
	}
	for range 2 { // the second one finds nothing to delete
		if err := b.Delete(ctx, "segno/a/1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Get(ctx, "segno/a/1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of a deleted object returned %v", err)
	}
}
