package agent_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/sqlite"
)

// A page follows a thread that another process works on. It first receives the past events,
// and then the new ones.
func ExampleAgent_Follow() {
	ctx := context.Background()
	dir := scratch()
	defer os.RemoveAll(dir)
	open := func() *sqlite.Store {
		store, err := sqlite.Open(ctx, filepath.Join(dir, "agent.db"), sqlite.Options{})
		if err != nil {
			log.Fatal(err)
		}
		return store
	}
	working, watching := open(), open()
	defer working.Close()
	defer watching.Close()

	a := agent.New(agent.Config{Model: offline.New(), Store: working, Tools: tool.Standard()})
	say := func(prompt string) {
		if _, err := a.Run(ctx, agent.Input{Thread: "session-123", Prompt: prompt}); err != nil {
			log.Fatal(err)
		}
	}
	say("say hello")
	page := agent.New(agent.Config{Store: watching})
	turns := 0
	for e, err := range page.Follow(ctx, "session-123", 0) {
		if err != nil {
			log.Fatal(err)
		}
		switch e.Kind {
		case agent.EventMoved:
			fmt.Println("forget what is above", e.Seq)
		case agent.EventToolCall:
			fmt.Println("calls", e.Call.Name)
		case agent.EventDone:
			fmt.Println(e.Text)
			if turns++; turns == 1 {
				say("write list.txt: milk")
			}
		}
		if turns == 2 {
			break
		}
	}
	// Output:
	// hello
	// calls write_file
	// wrote list.txt
}
