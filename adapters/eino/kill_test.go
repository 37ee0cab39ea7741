package segnoeino_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cloudwego/eino/compose"
	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
)

// values are the inputs and outputs of the nodes of random graphs: by node, its output.
type values = map[string]string

// randomGraph is a graph of nodes n0, n1, … in which each node follows some of those before it.
type randomGraph struct {
	before [][]int
	once   []bool // the node is an [segnoeino.InvokableLambda]
	eager  bool
}

func newRandomGraph(seed uint64) *randomGraph {
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := &randomGraph{eager: rnd.IntN(2) == 0}
	for n := range 3 + rnd.IntN(5) {
		var before []int
		for b := range n {
			if rnd.IntN(3) == 0 {
				before = append(before, b)
			}
		}
		g.before, g.once = append(g.before, before), append(g.once, rnd.IntN(2) == 0)
	}
	return g
}

func nameOf(n int) string { return "n" + strconv.Itoa(n) }

// last returns the nodes that no node follows.
func (g *randomGraph) last() []int {
	var all []int
	for n := range g.before {
		if !slices.ContainsFunc(g.before, func(b []int) bool { return slices.Contains(b, n) }) {
			all = append(all, n)
		}
	}
	return all
}

// output is the output of a node for an input.
func output(node string, in values) values {
	keys := slices.Sorted(maps.Keys(in))
	text := node + "("
	for _, k := range keys {
		text += in[k] + " "
	}
	return values{node: segno.HashOf([]byte(text)).String()}
}

// want returns the output of the graph.
func (g *randomGraph) want(in values) values {
	outs := make([]values, len(g.before))
	merged := func(nodes []int) values {
		all := values{}
		for _, n := range nodes {
			maps.Copy(all, outs[n])
		}
		return all
	}
	for n, before := range g.before {
		from := in
		if len(before) > 0 {
			from = merged(before)
		}
		outs[n] = output(nameOf(n), from)
	}
	return merged(g.last())
}

// compile builds the graph. run is called by each node.
func (g *randomGraph) compile(ctx context.Context, checkpoints *segnoeino.Checkpoints, run func(node string)) (compose.Runnable[values, values], error) {
	graph := compose.NewGraph[values, values]()
	var errs []error
	for n, before := range g.before {
		fn := func(_ context.Context, in values) (values, error) {
			run(nameOf(n))
			return output(nameOf(n), in), nil
		}
		lambda := compose.InvokableLambda(fn)
		if g.once[n] {
			lambda = segnoeino.InvokableLambda(fn)
		}
		errs = append(errs, graph.AddLambdaNode(nameOf(n), lambda))
		if len(before) == 0 {
			errs = append(errs, graph.AddEdge(compose.START, nameOf(n)))
		}
		for _, b := range before {
			errs = append(errs, graph.AddEdge(nameOf(b), nameOf(n)))
		}
	}
	for _, n := range g.last() {
		errs = append(errs, graph.AddEdge(nameOf(n), compose.END))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	opts := []compose.GraphCompileOption{compose.WithCheckPointStore(checkpoints), compose.WithNodeTriggerMode(compose.AllPredecessor)}
	if !g.eager {
		opts = append(opts, compose.WithEagerExecutionDisabled())
	}
	return graph.Compile(ctx, opts...)
}

// killer kills the process at a moment: before or after a commit or an effect.
type killer struct {
	at  int64
	now atomic.Int64
}

func (k *killer) tick() {
	if k.now.Add(1) == k.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// killedStore kills its own process before or after a commit.
type killedStore struct {
	*sqlite.Store
	*killer
}

func (s *killedStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	s.tick()
	head, err := s.Store.Commit(ctx, c)
	s.tick()
	return head, err
}

// childReport is the result of a child process.
type childReport struct {
	Output values   `json:"output,omitempty"`
	Lost   []string `json:"lost,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// childEnv has the arguments of a child: the directory, the seed of the graph, the moment of the kill, and whether nodes
// may be repeated.
const childEnv = "SEGNO_EINO_CHILD"

// runChild runs a random graph in this process, until it ends or is killed.
func runChild(args string) (report childReport) {
	fail := func(err error) childReport { return childReport{Error: err.Error()} }
	f := strings.Split(args, "\t")
	seed, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return fail(err)
	}
	at, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return fail(err)
	}
	ctx, kill := context.Background(), &killer{at: at}
	store, err := sqlite.Open(ctx, filepath.Join(f[0], "segno.db"), sqlite.Options{})
	if err != nil {
		return fail(err)
	}
	defer store.Close()
	effects, err := os.OpenFile(filepath.Join(f[0], "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	defer effects.Close()
	checkpoints := segnoeino.New(&killedStore{store, kill})
	graph, err := newRandomGraph(seed).compile(ctx, checkpoints, func(node string) {
		kill.tick()
		if _, err := fmt.Fprintln(effects, node); err != nil {
			panic(err)
		}
		kill.tick()
	})
	if err != nil {
		return fail(err)
	}
	call := segnoeino.Call{Thread: "run", Key: "run", Repeat: func(string) bool { return f[3] == "repeat" }}
	report.Output, err = segnoeino.Invoke(ctx, checkpoints, graph, call, values{"in": "x"})
	var lost *segnoeino.LostError
	switch {
	case errors.As(err, &lost):
		for _, n := range lost.Nodes {
			report.Lost = append(report.Lost, n.Node)
		}
	case err != nil:
		return fail(err)
	}
	return report
}

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		report := runChild(args)
		if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	memdir.Use()
	os.Exit(m.Run())
}

// child runs a random graph in another process. killed reports whether the process was killed.
func child(t *testing.T, dir string, seed uint64, kill int, mayRepeat bool) (report childReport, killed bool) {
	t.Helper()
	repeat := ""
	if mayRepeat {
		repeat = "repeat"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\t%d\t%d\t%s", childEnv, dir, seed, kill, repeat), "GOMAXPROCS=2")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return report, true
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, stderr.String())
	}
	return report, false
}

// Processes that run random graphs are killed before and after any commit and any effect. Every node has its
// effect once, and once more for each time that it was reported lost and the caller allowed it to run again. The
// graph has the output of a run without kills.
func TestKilledGraphs(t *testing.T) {
	sample := 20
	if testing.Short() {
		sample = 1
	}
	kills, repeated := 0, 0
	for _, seed := range soak.Seeds(t, sample, 500) {
		k, r := killGraph(t, seed)
		kills, repeated = kills+k, repeated+r
	}
	t.Logf("%d kills; %d nodes were reported lost", kills, repeated)
}

func killGraph(t *testing.T, seed uint64) (kills, repeated int) {
	t.Helper()
	g, rnd, dir := newRandomGraph(seed), rand.New(rand.NewPCG(seed, 2)), t.TempDir()
	reported, mayRepeat := map[string]int{}, false
	for try := 0; ; try++ {
		kill := 0
		if try < 4 {
			kill = 1 + rnd.IntN(6*len(g.before))
		}
		report, killed := child(t, dir, seed, kill, mayRepeat)
		mayRepeat = false
		switch {
		case killed:
			kills++
			continue
		case report.Error != "" || try > 50:
			t.Fatalf("seed %d: %s", seed, report.Error)
		case report.Lost != nil:
			for _, node := range report.Lost {
				reported[node]++
				repeated++
			}
			mayRepeat = true
			continue
		}
		if want := g.want(values{"in": "x"}); !maps.Equal(report.Output, want) {
			t.Fatalf("seed %d: the output is %v, want %v", seed, report.Output, want)
		}
		break
	}
	data, err := os.ReadFile(filepath.Join(dir, "effects"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, node := range strings.Fields(string(data)) {
		count[node]++
	}
	for n := range g.before {
		if node := nameOf(n); count[node] < 1 || count[node] > 1+reported[node] {
			t.Errorf("seed %d: %s had its effect %d times and was reported %d times", seed, node, count[node], reported[node])
		}
	}
	return kills, repeated
}
