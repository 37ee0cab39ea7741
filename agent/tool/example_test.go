package tool_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
)

// An agent works in a directory and cannot leave it.
func ExampleDeep() {
	dir, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()

	a := agent.New(agent.Config{Model: offline.New(), Tools: tool.Deep(dir, root)})
	prompt := "todo greet ; write notes/a.txt: hello\nedit notes/a.txt: hello -> good day\nrun cat notes/*\nread ../secret\ndone greet"
	for ev, err := range a.Stream(context.Background(), agent.Input{Prompt: prompt}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Kind {
		case tool.EventFileWritten, tool.EventFileEdited:
			fmt.Println(ev.Kind, ev.Path)
		case tool.EventExecFinish:
			fmt.Println(ev.Kind, ev.Text, *ev.Code)
		case agent.EventTodos:
			fmt.Println(ev.Kind, ev.Todos)
		case agent.EventToolResult:
			if ev.Result.Error {
				fmt.Println(ev.Result.Text)
			}
		}
	}
	// Output:
	// todos-changed [{1 greet pending}]
	// file-written notes/a.txt
	// file-edited notes/a.txt
	// execute-finish cat notes/* 0
	// ../secret: the path leaves the root: all files are below it
	// todos-changed [{1 greet completed}]
}
