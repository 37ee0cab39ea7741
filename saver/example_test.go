package saver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
)

// A step has two branches, and one of them fails at first. The step resumes with the writes of the
// branch that succeeded, and runs only the other one.
func ExampleStoreSaver_SaveWrites() {
	ctx := context.Background()
	s := saver.New(memory.New(nil))
	at := saver.ThreadKey{Thread: "research"}
	if _, err := s.Save(ctx, saver.Snapshot{ThreadKey: at}); err != nil {
		fmt.Println(err)
	}
	runs := map[string]int{}
	branch := func(name string) error {
		if runs[name]++; name == "web" && runs[name] == 1 {
			return errors.New("timeout")
		}
		return nil
	}
	step := func() error {
		loaded, err := s.Load(ctx, at)
		if err != nil {
			return err
		}
		for _, name := range []string{"files", "web"} { // a real program runs them at once
			if _, done := loaded.Writes[name]; done {
				continue
			}
			if err := branch(name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := s.SaveWrites(ctx, loaded, name, saver.Write{Name: "findings", Value: []byte(`"of ` + name + `"`)}); err != nil {
				return err
			}
		}
		if loaded, err = s.Load(ctx, at); err != nil { // with the writes of all branches
			return err
		}
		loaded.State = map[string]json.RawMessage{}
		for name, writes := range loaded.Writes {
			loaded.State[name] = writes[0].Value
		}
		_, err = s.Save(ctx, loaded)
		return err
	}
	fmt.Println(step())
	fmt.Println(step())
	fmt.Println(runs)
	// Output:
	// web: timeout
	// <nil>
	// map[files:1 web:2]
}
