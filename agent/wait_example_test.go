package agent_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/store/memory"
)

// A tool orders, waits three days, and asks a person. Each run ends when the tool waits, and the
// next one may be in another process. The order is a step, so it is made once.
func ExampleSleep() {
	ctx, now := context.Background(), time.Now()
	deliver := agent.NewTool("deliver", "delivers an order", agent.LostRetry, func(ctx context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
		order, err := agent.Do(ctx, "order", func(context.Context) (int, error) {
			fmt.Println("ordered")
			return 17, nil
		})
		if err != nil {
			return "", err
		}
		agent.Sleep(ctx, 72*time.Hour)
		door, err := agent.Interrupt(ctx, agent.Ask{Text: "Which door?", Choices: []string{"front", "back"}})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("order %d is at the %s door", order, door.Text), nil
	})
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(nil), Tools: []agent.Tool{deliver}, Now: func() time.Time { return now }})

	out, err := a.Run(ctx, agent.Input{Thread: "session-123", Prompt: "call deliver {}"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sleeps for", out.Wake.Sub(now))
	now = out.Wake
	if out, err = a.Run(ctx, agent.Input{Thread: "session-123"}); err != nil {
		log.Fatal(err)
	}
	question := out.Interrupts[0]
	fmt.Println("asks:", question.Question)
	answer := segno.Decision{Interrupt: question.ID, Kind: segno.Respond, Text: "back"}
	if out, err = a.Run(ctx, agent.Input{Thread: "session-123", Decide: []segno.Decision{answer}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text)
	// Output:
	// ordered
	// sleeps for 72h0m0s
	// asks: Which door?
	// deliver: order 17 is at the back door
}

// A tool waits for a payment. The signal may also come before the tool waits for it.
func ExampleAgent_Signal() {
	ctx := context.Background()
	ship := agent.NewTool("ship", "ships an order once it is paid", agent.LostRetry, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		paid, err := agent.Await(ctx, "paid")
		if err != nil {
			return "", err
		}
		return "shipped for " + paid.Text, nil
	})
	a := agent.New(agent.Config{Model: offline.New(), Store: memory.New(nil), Tools: []agent.Tool{ship}})
	if _, err := a.Run(ctx, agent.Input{Thread: "order-17", Prompt: "call ship {}"}); err != nil {
		log.Fatal(err)
	}
	for range 2 { // the sender may repeat a signal
		if err := a.Signal(ctx, "order-17", "paid", "payment-4", 80); err != nil {
			log.Fatal(err)
		}
	}
	out, err := a.Run(ctx, agent.Input{Thread: "order-17"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text)
	// Output: ship: shipped for 80
}

// A tool prompts a thread of another agent and waits for its answer.
func ExampleChild() {
	ctx, store := context.Background(), memory.New(nil)
	research := agent.New(agent.Config{Name: "research", Model: offline.New(), Store: store})
	look := agent.NewTool("look", "asks the research agent", agent.LostRetry, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		a, err := agent.Child(ctx, segno.Child{Agent: "research", Prompt: "say it is 17"})
		return a.Text, err
	})
	a := agent.New(agent.Config{Model: offline.New(), Store: store, Tools: []agent.Tool{look}, Agents: map[string]*agent.Agent{"research": research}})
	out, err := a.Run(ctx, agent.Input{Thread: "session-123", Prompt: "call look {}"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text)
	// Output: look: it is 17
}
