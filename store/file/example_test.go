package file_test

import (
	"context"
	"fmt"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/file"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := file.Open(ctx, dir, file.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	head, err := store.Commit(ctx, segno.Commit{ID: "first", Thread: "user:42", Create: &segno.Thread{ID: "user:42"},
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Name: "user", Body: []byte(`{"text":"hello"}`)}}})
	if err != nil {
		panic(err)
	}
	line, err := store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(head.Thread, string(line.Commits[0].Entries[0].Body))
	names, err := os.ReadDir(dir + "/threads")
	if err != nil {
		panic(err)
	}
	fmt.Println(names[0].Name())
	// Output:
	// user:42 {"text":"hello"}
	// user%3a42
}
