package chaostest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/jackc/pgx/v5/pgxpool"
)

// orderVariable has the [workerOrder] of a process that is a worker.
const orderVariable = "SEGNO_CHAOS_WORKER"

// leaseTime is the shortest that agents allow.
const leaseTime = 3 * time.Second

// workerOrder is the configuration of a worker.
type workerOrder struct {
	Name    string
	URL     string // of the server, through the proxy
	Schema  string
	Bucket  string // its URL
	Slow    time.Duration
	World   string // the URL of the world
	Skew    time.Duration
	Tenants map[string]int
}

// runWorker is the main function of a worker. It drains at the end of its standard input.
func runWorker(text string) int {
	var o workerOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	// A server that is being restarted refuses connections for longer than a call retries.
	for ctx.Err() == nil {
		err := o.run(ctx)
		if err == nil {
			return 0
		}
		fmt.Fprintln(os.Stderr, o.Name, "starts again after", err)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return 0
}

func (o *workerOrder) run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	bucket, err := openBucket(ctx, o.Bucket, o.Slow)
	if err != nil {
		return err
	}
	defer bucket.close()
	f, err := fleet.Open(ctx, fleet.Config{Pool: pool, Schema: o.Schema, Bucket: bucket,
		Log:   slog.New(slog.NewTextHandler(os.Stderr, nil)).With("worker", o.Name),
		Clock: func() time.Time { return time.Now().Add(o.Skew) }})
	if err != nil {
		return err
	}
	defer f.Close()
	w := f.Worker(map[string]*agent.Agent{"clerk": o.agent(f)})
	w.Queues, w.LeaseTime, w.Retry, w.Drain, w.MaxAttempts = o.Tenants, leaseTime, 100*time.Millisecond, 10*time.Second, 1000
	return w.Run(ctx)
}

// agent returns the agent that the workers have. The world learns of each call of its model and its tools.
func (o *workerOrder) agent(f *fleet.Fleet) *agent.Agent {
	return agent.New(agent.Config{Name: "clerk", Model: clerk{o}, Store: f.Store(), LeaseTime: leaseTime,
		StoreRetry: agent.Retry{Attempts: 3, Wait: 20 * time.Millisecond, MaxWait: 200 * time.Millisecond},
		Tools: []agent.Tool{
			o.tool("charge", agent.LostRetry), // the world does the same key once
			o.tool("mail", agent.LostAsk),     // it knows no keys
			o.tool("read", agent.LostRerun),   // its result is large
		}})
}

type toolArgs struct {
	ID string `json:"id"`
}

func (o *workerOrder) tool(name string, onLost agent.OnLost) agent.Tool {
	return agent.NewTool(name, name, onLost, func(ctx context.Context, inv *agent.Invocation, args toolArgs) (string, error) {
		if err := o.report(ctx, name, args.ID, inv.Key); err != nil {
			return "", err
		}
		if name == "read" {
			return strings.Repeat(args.ID+" ", 300_000/len(args.ID)), nil
		}
		return "ok", nil
	})
}

// report calls the world until it answers. The world does not answer while a fault happens.
func (o *workerOrder) report(ctx context.Context, what, id, key string) error {
	for {
		q := url.Values{"worker": {o.Name}, "pid": {strconv.Itoa(os.Getpid())}, "what": {what}, "id": {id}, "key": {key}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.World+"?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK || what == "mail" || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// clerk is a model that makes the calls of the newest prompt, one in each step.
type clerk struct{ *workerOrder }

func (clerk) Name() string { return "test/clerk" }

// Generate implements [agent.Model].
func (m clerk) Generate(ctx context.Context, q agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		prompt, done := "", 0
		for _, msg := range q.Messages {
			switch msg.Role {
			case agent.User:
				prompt, done = msg.Text(), 0
			case agent.ToolRole:
				done += len(msg.Parts)
			}
		}
		if err := m.report(ctx, "model", prompt, ""); err != nil {
			yield(agent.Chunk{}, err)
			return
		}
		name, calls, _ := strings.Cut(prompt, ": ")
		all := strings.Split(calls, "; ")
		r := agent.Reply{Message: agent.Message{Role: agent.Assistant}}
		if done >= len(all) {
			r.Stop, r.Message.Parts = agent.StopEnd, []agent.Part{{Text: answerTo(name)}}
			yield(agent.Chunk{Reply: &r}, nil)
			return
		}
		tool, id, _ := strings.Cut(all[done], " ")
		args, err := json.Marshal(toolArgs{ID: id})
		if err != nil {
			yield(agent.Chunk{}, err)
			return
		}
		r.Stop = agent.StopTools
		r.Message.Parts = []agent.Part{{Call: &agent.Call{ID: "call-" + id, Name: tool, Args: bytes.TrimSpace(args)}}}
		yield(agent.Chunk{Reply: &r}, nil)
	}
}

// answerTo is the answer to the prompt with a name.
func answerTo(name string) string { return "done " + name }
