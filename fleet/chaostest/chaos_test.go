package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestChaos runs fleets in which everything fails, with one schedule for each seed.
func TestChaos(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 1000) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runChaos(t, planned(seed)) })
	}
}

// patience bounds a schedule. It takes a few seconds on an idle machine.
const patience = 4 * time.Minute

func runChaos(t *testing.T, p *plan) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newChaos(t, ctx, p)
	defer c.cleanUp()
	for i := range workerCount {
		c.startWorker(i)
	}
	c.send()
	c.operate()
	c.drainAll()
	c.check()
}

// chaos is one schedule that runs.
type chaos struct {
	*testing.T
	ctx    context.Context
	plan   *plan
	schema string
	pool   *pgxpool.Pool
	fleets map[string]*fleet.Fleet // of each tenant
	store  segno.Store
	world  *world
	proxy  *proxy
	group  sync.WaitGroup

	restarts sync.Mutex

	mu       sync.Mutex
	workers  [workerCount]*process
	started  int
	all      []*process
	isEnding bool
	approved map[string]int // how often the operator let a mail be sent again
}

// process is a worker.
type process struct {
	name  string
	index int
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	err   error
}

func newChaos(t *testing.T, ctx context.Context, p *plan) *chaos {
	c := &chaos{T: t, ctx: ctx, plan: p, schema: fmt.Sprintf("chaos_%d", p.seed), fleets: map[string]*fleet.Fleet{}, approved: map[string]int{}}
	bucket, err := openBucket(ctx, bucketURL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bucket.close)
	if c.pool, err = pgxpool.New(ctx, server.URL+"&pool_max_conns=4"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	for _, thread := range p.threads {
		if c.fleets[thread.tenant] != nil {
			continue
		}
		f, err := fleet.Open(ctx, fleet.Config{Pool: c.pool, Schema: c.schema, Tenant: thread.tenant, Bucket: bucket})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		c.fleets[thread.tenant], c.store = f, f.Store()
	}
	if c.proxy, err = newProxy(server.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.proxy.close)
	if c.world, err = newWorld(); err != nil {
		t.Fatal(err)
	}
	c.world.fault = c.fault
	t.Cleanup(func() { c.world.server.Close() })
	return c
}

// startWorker starts the process of a worker, at first or instead of one that ended.
func (c *chaos) startWorker(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isEnding {
		return
	}
	c.started++
	o := workerOrder{Name: fmt.Sprintf("w%d", c.started), Schema: c.schema, Bucket: bucketURL, Slow: c.plan.slow, World: c.world.url, Skew: c.plan.skew[i],
		URL:     "postgres://postgres@" + c.proxy.addr() + "/postgres?sslmode=disable&pool_max_conns=8&application_name=" + c.schema,
		Tenants: []map[string]int{{"acme": 2, "umbrella": 2}, {"acme": 2, "umbrella": 1}, {"umbrella": 3}}[i]}
	text, err := json.Marshal(o)
	if err != nil {
		c.Fatal(err)
	}
	p := &process{name: o.Name, index: i, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	log := &lines{world: c.world, name: o.Name}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		c.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	c.workers[i] = p
	c.all = append(c.all, p)
	c.world.tell("%s starts", o.Name)
}

// lines adds the output of a worker to the story.
type lines struct {
	world *world
	name  string
}

func (l *lines) Write(text []byte) (int, error) {
	l.world.tell("%s: | %s", l.name, strings.TrimSpace(string(text)))
	return len(text), nil
}

// fault makes the fault that is planned for the n-th call.
func (c *chaos) fault(n int, e event) {
	kind, ok := c.plan.faults[n]
	if !ok {
		return
	}
	c.world.tell("fault during the call of %s: %s", e.worker, kind)
	c.mu.Lock()
	var caller, other *process
	for _, p := range c.workers {
		if p.cmd.Process.Pid == e.pid {
			caller = p
		} else {
			other = p
		}
	}
	c.mu.Unlock()
	if caller == nil { // it is draining, or was replaced
		caller = other
	}
	switch kind {
	case killCaller:
		c.replace(caller)
	case killOther:
		c.replace(other)
	case drainCaller:
		caller.in.Close()
		c.startWorker(caller.index)
	case stopCaller:
		c.stop(caller)
	case cutSessions:
		c.retry(func() error { // another fault may have killed the server
			return c.pool.QueryRow(c.ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", c.schema).Scan(new(int))
		})
	case loseCommits:
		c.proxy.arm()
		c.proxy.arm()
	case killServer:
		c.restart(server)
	case killGateway:
		if gateway != nil {
			c.restart(gateway)
		}
	}
}

// restart kills a server and starts it again. Faults of two calls may do so at the same time.
func (c *chaos) restart(s *serverrig.Server) {
	c.restarts.Lock()
	defer c.restarts.Unlock()
	s.Kill()
	if err := s.Restart(c.ctx); err != nil && c.ctx.Err() == nil {
		c.Error(err)
	}
}

// replace kills a worker and starts another one.
func (c *chaos) replace(p *process) {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	c.startWorker(p.index)
}

// stop stops a worker until its lease has expired and other workers have taken its threads. It then continues in the middle of its call.
func (c *chaos) stop(p *process) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	c.group.Go(func() {
		select {
		case <-c.ctx.Done():
		case <-time.After(2 * leaseTime):
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		c.world.tell("%s continues", p.name)
	})
}

// send sends all prompts, and repeats a send that failed.
func (c *chaos) send() {
	for n := range 3 {
		for _, t := range c.plan.threads {
			if n >= len(t.prompts) {
				continue
			}
			p := t.prompts[n]
			times := 1
			if c.plan.repeats[p.name] {
				times = 2
			}
			for range times {
				c.retry(func() error {
					_, err := c.fleets[t.tenant].Send(c.ctx, fleet.Prompt{Thread: t.id, Agent: "clerk", Text: p.text, Key: p.name})
					return err
				})
			}
		}
	}
}

// retry repeats an operation until it succeeds: the server may be down.
func (c *chaos) retry(do func() error) {
	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-c.ctx.Done():
			c.Fatalf("the schedule did not end within %v: %v", patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var errNotDone = errors.New("prompts are open")

// operate decides the questions about calls with a lost result, until all prompts are done.
func (c *chaos) operate() {
	c.retry(func() error {
		var open []string
		for p, err := range c.fleets["acme"].Prompts(c.ctx, fleet.PromptQuery{States: []fleet.State{fleet.StateSent, fleet.StateRunning, fleet.StateWaiting, fleet.StateParked}}) {
			if err != nil {
				return err
			}
			open = append(open, fmt.Sprintf("%s %s %s, attempt %d, %s", p.Key, p.State, p.Worker, p.Attempts, p.Error))
			if p.State == fleet.StateWaiting {
				if err := c.decide(p); err != nil {
					return err
				}
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("%w: %s", errNotDone, strings.Join(open, "; "))
		}
		return nil
	})
}

// decide answers the questions of a thread as an operator does, who asks the world.
func (c *chaos) decide(p fleet.PromptState) error {
	var open []segno.Interrupt
	for q, err := range agent.New(agent.Config{Store: c.store, Model: clerk{}}).Find(c.ctx, agent.FindQuery{Phase: agent.PhaseWaiting}) {
		if err != nil {
			return err
		}
		if q.Thread.ID == segno.ThreadID(p.Thread) {
			open = q.Interrupts
		}
	}
	for _, i := range open {
		var args toolArgs
		if err := json.Unmarshal(i.Args, &args); err != nil {
			return err
		}
		d := segno.Decision{Interrupt: i.ID, Kind: segno.Approve, Actor: "operator"}
		isMailed := c.world.isMailed(args.ID)
		if isMailed {
			d.Kind, d.Text = segno.Respond, "ok"
		}
		err := c.fleets[p.Tenant].Decide(c.ctx, p.Thread, d)
		if errors.Is(err, segno.ErrAnswered) {
			continue
		}
		if err != nil {
			return err
		}
		c.world.tell("the operator decides: %s %s %s", i.Tool, args.ID, d.Kind)
		if !isMailed {
			c.approved[args.ID]++
		}
	}
	return nil
}

// drainAll ends all workers that still run.
func (c *chaos) drainAll() {
	c.group.Wait() // stopped workers continue
	c.mu.Lock()
	c.isEnding = true
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, p := range all {
		p.in.Close()
	}
	for _, p := range all {
		select {
		case <-p.ended:
		case <-c.ctx.Done():
			c.Errorf("%s did not drain", p.name)
		}
	}
}

// cleanUp kills the processes that still run, and logs the events if the schedule failed.
func (c *chaos) cleanUp() {
	c.mu.Lock()
	c.isEnding = true
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, p := range all {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
	if !c.Failed() {
		return
	}
	c.Logf("repeat it with SEGNO_COUNT=1 SEGNO_SEED=%d\n%s%s", c.plan.seed, c.plan, strings.Join(c.world.story, "\n"))
}
