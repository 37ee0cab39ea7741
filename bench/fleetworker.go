package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dalsegno/segno"
	goagent "github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
)

// fleetSchema is the schema of the fleet.
const fleetSchema = "fleet"

// The prompts of the fleet's threads.
const (
	promptAnswer  = "answer"  // the model answers at once
	promptApprove = "approve" // a call needs approval
	promptSleep   = "sleep"   // a call sleeps for three days
)

// steadyAgent returns an agent whose model answers at once. The calls of its model and its tool print the thread and the time, if
// told to.
func steadyAgent(store segno.Store, prints bool) *goagent.Agent {
	report := func(thread string) error {
		if !prints {
			return nil
		}
		_, err := os.Stdout.WriteString(fmt.Sprintln(thread, time.Now().UnixNano())) // one system call
		return err
	}
	tool := func(name string, run func(ctx context.Context)) goagent.Tool {
		return goagent.NewTool(name, name, goagent.LostRerun, func(ctx context.Context, inv *goagent.Invocation, args struct {
			Thread string `json:"thread"`
		}) (string, error) {
			run(ctx)
			return "ok", report(args.Thread)
		})
	}
	return goagent.New(goagent.Config{Name: "steady", Model: steadyModel{report}, Store: store, Approve: goagent.RequireApproval(promptApprove), Tools: []goagent.Tool{
		tool(promptApprove, func(context.Context) {}),
		tool(promptSleep, func(ctx context.Context) { goagent.Sleep(ctx, 72*time.Hour) }),
	}})
}

// steadyModel is a model that answers at once.
type steadyModel struct{ report func(thread string) error }

func (steadyModel) Name() string { return "bench/steady" }

// Generate implements [goagent.Model].
func (m steadyModel) Generate(_ context.Context, q goagent.Request) iter.Seq2[goagent.Chunk, error] {
	return func(yield func(goagent.Chunk, error) bool) {
		last := q.Messages[len(q.Messages)-1]
		reply := goagent.Reply{Stop: goagent.StopEnd, Message: goagent.Message{Role: goagent.Assistant, Parts: []goagent.Part{{Text: "The order has been sent."}}}}
		if last.Role == goagent.User && last.Text() != promptAnswer {
			args, err := json.Marshal(map[string]string{"thread": q.Thread})
			if err != nil {
				yield(goagent.Chunk{}, err)
				return
			}
			reply.Stop = goagent.StopTools
			reply.Message.Parts = []goagent.Part{{Call: &goagent.Call{ID: "call-" + q.Thread, Name: last.Text(), Args: args}}}
		} else if err := m.report(q.Thread); err != nil {
			yield(goagent.Chunk{}, err)
			return
		}
		yield(goagent.Chunk{Reply: &reply}, nil)
	}
}

// openFleet opens the fleet of the section.
func openFleet(ctx context.Context, pool *pgxpool.Pool) (*fleet.Fleet, error) {
	return fleet.Open(ctx, fleet.Config{Pool: pool, Schema: fleetSchema})
}

// fleetWorker is the process of a worker. It prints "ready", and then each first step if told to. It drains at the end of its
// standard input.
func fleetWorker(url string, prints bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 2*fleetSlots + 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	f, err := openFleet(ctx, pool)
	if err != nil {
		return err
	}
	defer f.Close()
	w := f.Worker(map[string]*goagent.Agent{"steady": steadyAgent(f.Store(), prints)})
	w.Slots = fleetSlots
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("ready")
	return w.Run(ctx)
}
