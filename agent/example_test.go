package agent_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
)

// This is the first run. The offline model follows plain commands; any other model can take its
// place.
func Example() {
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(nil), Tools: tool.Standard()})

	in := agent.Input{Thread: "session-123", Prompt: "todo buy milk\nwrite list.txt: milk"}
	for e, err := range a.Stream(context.Background(), in) {
		if err != nil {
			log.Fatal(err)
		}
		switch e.Kind {
		case agent.EventToolCall:
			fmt.Println("calls", e.Call.Name)
		case agent.EventDone:
			fmt.Println(e.Text)
		}
	}
	// Output:
	// calls write_todos
	// calls write_file
	// noted the todos; wrote list.txt
}

// A second process opens the same store and continues where the first one ended.
func Example_resume() {
	ctx := context.Background()
	dir := scratch()
	defer os.RemoveAll(dir)

	process := func(prompt string) {
		store, err := sqlite.Open(ctx, filepath.Join(dir, "agent.db"), sqlite.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		a := agent.New(agent.Config{Model: offline.New(), Store: store, Tools: tool.Standard()})
		for e, err := range a.Stream(ctx, agent.Input{Thread: "session-123", Prompt: prompt}) {
			if err != nil {
				log.Fatal(err)
			}
			switch e.Kind {
			case agent.EventLoaded:
				fmt.Printf("restored %d messages, %d todos, %d files\n", e.Loaded.Messages, e.Loaded.Todos, e.Loaded.Files)
			case agent.EventDone:
				fmt.Println(e.Text)
			}
		}
	}
	process("remember the port is 8080\ntodo deploy ; write go.mod: module demo")
	process("recall the port")
	// Output:
	// restored 0 messages, 0 todos, 0 files
	// noted the todos; wrote go.mod
	// restored 5 messages, 1 todos, 1 files
	// the port is 8080
}

// A call that needs approval ends the run. The question waits in the store until
// a person answers it, in any process. The call runs once.
func Example_approval() {
	ctx := context.Background()
	dir := scratch()
	defer os.RemoveAll(dir)

	type mail struct {
		To string `json:"to"`
	}
	send := agent.NewTool("send_email", "sends an email", agent.LostAsk,
		func(_ context.Context, _ *agent.Invocation, m mail) (string, error) {
			fmt.Println("sending to", m.To)
			return "sent", nil
		})
	process := func(in agent.Input) agent.Outcome {
		store, err := sqlite.Open(ctx, filepath.Join(dir, "agent.db"), sqlite.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		a := agent.New(agent.Config{Model: offline.New(), Store: store, Tools: []agent.Tool{send}, Approve: agent.RequireApproval("send_email")})
		out, err := a.Run(ctx, in)
		if err != nil {
			log.Fatal(err)
		}
		return out
	}

	out := process(agent.Input{Thread: "session-123", Prompt: `call send_email {"to":"bob"}`})
	asked := out.Interrupts[0]
	fmt.Printf("may it %s %s?\n", asked.Tool, asked.Args)

	// Another process, another day.
	out = process(agent.Input{Thread: "session-123", Decide: []segno.Decision{{Interrupt: asked.ID, Kind: segno.Approve}}})
	fmt.Println(out.Text)
	// Output:
	// may it send_email {"to":"bob"}?
	// sending to bob
	// send_email: sent
}

// Two threads continue from one checkpoint, independently of each other.
func Example_fork() {
	ctx := context.Background()
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(nil), Tools: tool.Standard()})
	do := func(thread, prompt string) agent.Outcome {
		out, err := a.Run(ctx, agent.Input{Thread: thread, Prompt: prompt})
		if err != nil {
			log.Fatal(err)
		}
		return out
	}

	base := do("plan", "write plan.txt: rest")
	if _, err := a.Fork(ctx, base.Saved, "bold"); err != nil {
		log.Fatal(err)
	}
	do("plan", "edit plan.txt: rest -> walk")
	do("bold", "edit plan.txt: rest -> fly")

	for _, thread := range []string{"plan", "bold"} {
		saved, err := a.Saver().Load(ctx, saver.ThreadKey{Thread: thread})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(thread, len(saved.Messages), string(saved.State["files/plan.txt"]))
	}
	// Output:
	// plan 8 {"text":"walk"}
	// bold 8 {"text":"fly"}
}

// Undo moves a thread back by turns, Restore to any of its checkpoints. Nothing is
// lost: Redo moves the thread forward again.
func Example_timeTravel() {
	ctx := context.Background()
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(nil), Tools: tool.Standard()})
	for _, prompt := range []string{"remember x is 1", "remember x is 2"} {
		if _, err := a.Run(ctx, agent.Input{Thread: "session-123", Prompt: prompt}); err != nil {
			log.Fatal(err)
		}
	}
	show := func(where agent.Status, err error) {
		if err != nil {
			log.Fatal(err)
		}
		messages, err := a.Messages(ctx, "session-123", where.Head)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("turn %d: %s\n", where.Turn, messages[len(messages)-1].Text())
	}

	show(a.Undo(ctx, "session-123", 1))
	show(a.Redo(ctx, "session-123", 1))
	for c, err := range a.Saver().History(ctx, saver.ThreadKey{Thread: "session-123"}, segno.CheckpointQuery{Step: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		if c.Kind == segno.CheckpointTurn {
			show(a.Restore(ctx, "session-123", c.ID))
		}
	}
	// Output:
	// turn 1: noted: x is 1
	// turn 2: noted: x is 2
	// turn 1: noted: x is 1
}

// scratch is a directory for an example's store.
func scratch() string {
	dir, err := os.MkdirTemp("", "segno-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}
