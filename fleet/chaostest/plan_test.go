package chaostest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// fault is something that happens during a call.
type fault string

// The faults.
const (
	killCaller  fault = "kill the worker that calls"
	killOther   fault = "kill another worker"
	drainCaller fault = "drain the worker that calls"
	stopCaller  fault = "stop the worker that calls for longer than its lease"
	cutSessions fault = "end all connections of the server"
	loseCommits fault = "lose the acknowledgements of two commits"
	killServer  fault = "kill the server"
	killGateway fault = "kill the gateway of the bucket"
)

// plan is a schedule: prompts, and the faults that happen until they are answered. It depends only on its seed.
type plan struct {
	seed    uint64
	threads []plannedThread
	faults  map[int]fault // by the number of the call during which they happen
	skew    []time.Duration
	slow    time.Duration   // of the bucket, at most
	repeats map[string]bool // prompts that are sent twice
}

type plannedThread struct {
	id, tenant string
	prompts    []plannedPrompt
}

// plannedPrompt is a prompt with its calls; see clerk.
type plannedPrompt struct{ name, text string }

const workerCount = 3

func planned(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 29))
	p := &plan{seed: seed, faults: map[int]fault{}, repeats: map[string]bool{}}
	calls := 0
	for n := range 3 + r.IntN(3) {
		t := plannedThread{id: fmt.Sprintf("thread-%d", n), tenant: []string{"acme", "umbrella"}[n%2]}
		for m := range 1 + r.IntN(3) {
			name := fmt.Sprintf("p%d.%d", n, m)
			var steps []string
			for k := range 1 + r.IntN(3) {
				tool := []string{"charge", "charge", "mail", "mail", "read"}[r.IntN(5)]
				steps = append(steps, fmt.Sprintf("%s %d.%d.%d", tool, n, m, k))
			}
			calls += 2*len(steps) + 1
			t.prompts = append(t.prompts, plannedPrompt{name, name + ": " + strings.Join(steps, "; ")})
			p.repeats[name] = r.IntN(3) == 0
		}
		p.threads = append(p.threads, t)
	}
	kinds := []fault{killCaller, killCaller, killOther, drainCaller, stopCaller, cutSessions, loseCommits, loseCommits, killGateway}
	if r.IntN(6) == 0 {
		kinds = append(kinds, killServer)
	}
	for range 2 + r.IntN(4) {
		p.faults[r.IntN(calls)] = kinds[r.IntN(len(kinds))]
	}
	for range workerCount {
		p.skew = append(p.skew, time.Duration(r.Int64N(int64(2*time.Second)))-time.Second)
	}
	if r.IntN(2) == 0 {
		p.slow = time.Duration(r.IntN(400)) * time.Millisecond
	}
	return p
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clocks %v, bucket %v, faults %v\n", p.skew, p.slow, p.faults)
	for _, t := range p.threads {
		for _, m := range t.prompts {
			fmt.Fprintf(&b, "%s of %s: %s\n", t.id, t.tenant, m.text)
		}
	}
	return b.String()
}
