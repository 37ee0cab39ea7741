// Command example ships an order with an agent of three tools, on any number of machines. It can be killed at any moment: a worker
// that runs elsewhere, or is started again, continues the order, and the tools that ended do not run twice.
//
//	example DIR URL ORDER             sends the order, and works until it is shipped
//	example -crash pay DIR URL ORDER  kills itself in the tool pay, before its effect
//
// DIR has the effects of the tools, as lines of a file; URL is that of a PostgreSQL database.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	crash = flag.String("crash", "", "the tool in which the process kills itself")
	lease = flag.Duration("lease", 30*time.Second, "how long a dead worker keeps its orders")
)

func main() {
	flag.Parse()
	if err := run(context.Background(), flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, url, order string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	f, err := fleet.Open(ctx, fleet.Config{Pool: pool})
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Send(ctx, fleet.Prompt{Thread: order, Agent: "shop", Text: "ship " + order, Key: order}); err != nil {
		return err
	}
	shop := agent.New(agent.Config{Store: f.Store(), Model: model{}, Tools: tools(dir)})
	w := f.Worker(map[string]*agent.Agent{"shop": shop})
	w.LeaseTime = *lease
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	outcome, err := await(ctx, f, order)
	stop()
	fmt.Println(outcome)
	return errors.Join(err, <-ended)
}

// await returns the outcome of an order.
func await(ctx context.Context, f *fleet.Fleet, order string) (string, error) {
	for {
		for p, err := range f.Prompts(ctx, fleet.PromptQuery{Thread: order, Key: order}) {
			if err != nil || p.State == fleet.StateDone || p.State == fleet.StateParked {
				return p.Outcome + p.Error, err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tools returns the three tools. The effect of a tool is a line in the file effects. A call whose result is lost may run again.
func tools(dir string) (all []agent.Tool) {
	for _, name := range []string{"reserve", "pay", "ship"} {
		all = append(all, agent.Tool{ToolSpec: agent.ToolSpec{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}, OnLost: agent.LostRetry,
			Run: func(context.Context, *agent.Invocation) (agent.Result, error) {
				if *crash == name {
					return agent.Result{}, syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
				file, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return agent.Result{}, err
				}
				_, err = fmt.Fprintln(file, name)
				return agent.Result{Text: name + " is done"}, errors.Join(err, file.Close())
			}})
	}
	return all
}

// model stands for a language model: it calls each tool once.
type model struct{}

func (model) Name() string { return "example/model" }

func (model) Generate(_ context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		called := (len(r.Messages) - 1) / 2 // each call is a message, and so is its result
		reply := agent.Reply{Message: agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Text: "shipped"}}}, Stop: agent.StopEnd}
		if called < len(r.Tools) {
			call := &agent.Call{ID: segno.NewID(), Name: r.Tools[called].Name, Args: json.RawMessage(`{}`)}
			reply = agent.Reply{Message: agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: call}}}, Stop: agent.StopTools}
		}
		yield(agent.Chunk{Reply: &reply}, nil)
	}
}
