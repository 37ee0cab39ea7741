package segnoeino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/adapters/internal/threadlease"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/timeline"
)

// Call selects the thread of a run and its options.
type Call struct {
	// Thread is the id of the thread, which is also Eino's checkpoint id. If the newest run of the
	// thread is complete, a new one begins, with the input. Otherwise that run continues, and the input is ignored
	// unless no step was complete.
	Thread string
	// Key names the request. If the newest run of the thread had the same key and is complete, its output is returned
	// and nothing runs, so a caller that crashed can repeat the call. An open run with another key is
	// [segno.KindRefused]. Without a key, a call after a complete run begins a new one.
	Key string
	// Options are passed to the graph. They must not contain a checkpoint id.
	Options []compose.Option
	// Resume has the answers to interrupts, by interrupt id; see [compose.BatchResumeWithData].
	Resume map[string]any
	// Repeat reports whether a node, or a tool, may run again after a crash or a cancellation lost its result. If it is nil, none
	// may, and the run returns a [LostError]. Models, retrievers and other components that only read always may.
	Repeat func(node string) bool
	// MaxSteps limits the steps of one call, because Eino counts them only within a step. 0 means 1,000.
	MaxSteps int
}

// LostError reports nodes that ran, or that began to run, in a step that a crash or the end of the context interrupted. Their
// effects have happened, or may have happened.
type LostError struct {
	Nodes []LostNode
}

// LostNode is a node, or a tool, of a step that was interrupted.
type LostNode struct {
	Node  string
	Ended bool // it ended, but the step that it belongs to did not
}

func (e *LostError) Error() string {
	var all []string
	for _, n := range e.Nodes {
		if n.Ended {
			all = append(all, n.Node+" ended")
		} else {
			all = append(all, n.Node+" began")
		}
	}
	return "the last step was interrupted: " + strings.Join(all, ", ")
}

// Invoke runs a graph and commits a version after each step. The graph must be compiled with
// [compose.WithCheckPointStore] and c.
func Invoke[I, O any](ctx context.Context, c *Checkpoints, graph compose.Runnable[I, O], call Call, in I) (out O, err error) {
	r, err := c.begin(ctx, call, in)
	if err != nil {
		return out, err
	}
	defer r.close(ctx)
	if r.isDone {
		return out, r.recorded(&out)
	}
	err = r.steps(call, func(ctx context.Context, opts []compose.Option) (err error) {
		out, err = graph.Invoke(ctx, in, opts...)
		return err
	})
	if err == nil {
		err = r.finish(ctx, out, outputOf(call, out))
	}
	return out, err
}

// outputOf returns the output of a run for later calls with its key, or nil if there is no key, or no JSON from which the
// output can be read again.
func outputOf[O any](call Call, out O) json.RawMessage {
	if call.Key == "" {
		return nil
	}
	return lossless(out)
}

// recorded decodes the output of the complete run.
func (r *run) recorded(out any) error {
	if r.result == nil {
		return segno.Errorf(segno.KindNotFound, opRun, string(r.thread), "the run is complete, and its output could not be recorded").
			WithHint("return a value from which JSON loses nothing")
	}
	if err := json.Unmarshal(r.result, out); err != nil {
		return segno.NewError(segno.KindCorrupt, opRun, string(r.thread), err)
	}
	return nil
}

// Stream is [Invoke] with a stream of the last step's output. The run is complete when the stream has been
// read to its end. The caller reads it to the end, or closes it.
func Stream[I, O any](ctx context.Context, c *Checkpoints, graph compose.Runnable[I, O], call Call, in I) (*schema.StreamReader[O], error) {
	r, err := c.begin(ctx, call, in)
	if err != nil {
		return nil, err
	}
	if r.isDone {
		defer r.close(ctx)
		var out O
		if err := r.recorded(&out); err != nil {
			return nil, err
		}
		return schema.StreamReaderFromArray([]O{out}), nil
	}
	var out *schema.StreamReader[O]
	err = r.steps(call, func(ctx context.Context, opts []compose.Option) (err error) {
		out, err = graph.Stream(ctx, in, opts...)
		return err
	})
	if err != nil {
		r.close(ctx)
		return nil, err
	}
	reader, writer := schema.Pipe[O](1)
	go func() {
		defer writer.Close()
		err := forward(ctx, r, call, out, writer)
		r.close(ctx) // before the reader sees the end, because the caller may then call the thread again
		if err != nil {
			var none O
			writer.Send(none, err)
		}
	}()
	return reader, nil
}

// forward passes on the stream of the last step until its end, and then ends the turn.
func forward[O any](ctx context.Context, r *run, call Call, out *schema.StreamReader[O], writer *schema.StreamWriter[O]) error {
	defer out.Close()
	var chunks []any
	for closed := false; ; {
		chunk, err := out.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		chunks = append(chunks, chunk)
		if !closed {
			closed = writer.Send(chunk, nil)
		}
	}
	var output json.RawMessage
	if all, err := concat(chunks); err == nil {
		if all, ok := all.(O); ok {
			output = outputOf(call, all)
		}
	}
	return r.finish(ctx, nil, output)
}

// run is one call of [Invoke] or [Stream].
type run struct {
	store  segno.Store
	thread segno.ThreadID
	lease  *threadlease.Lease

	isDone bool            // the newest run is complete and has the key of this call
	result json.RawMessage // its output, or nil

	timeline *timeline.Timeline // of the files, or nil
	files    segno.TurnKey      // their turn, or ""

	ctx    context.Context // of the graph; it ends if a commit fails
	cancel context.CancelCauseFunc

	outputs map[outputKey]json.RawMessage // of nodes that ended in the step that a crash interrupted
	streams sync.WaitGroup                // the outputs of nodes that are still read

	mu         sync.Mutex
	head       segno.Head
	turn       int
	step       int
	prompt     string
	checkpoint []byte          // Eino's checkpoint at the head, or nil
	ended      []string        // nodes that ended in the step
	running    map[string]bool // ids of calls of tools
	answered   string          // the text of the newest answer of a model
	err        error           // why the run stops, such as a commit that failed
}

type runKey struct{}

// runOf returns the run of ctx if it is a run of that thread.
func runOf(ctx context.Context, thread string) *run {
	if r, ok := ctx.Value(runKey{}).(*run); ok && string(r.thread) == thread {
		return r
	}
	return nil
}

// defaultMaxSteps is far above the steps of real graphs.
const defaultMaxSteps = 1000

// steps runs the graph step by step until it ends, fails, or is interrupted by one of its nodes.
func (r *run) steps(call Call, step func(context.Context, []compose.Option) error) error {
	limit := call.MaxSteps
	if limit <= 0 {
		limit = defaultMaxSteps
	}
	ctx := r.ctx
	opts := append(slices.Clone(call.Options), compose.WithCheckPointID(string(r.thread)), compose.WithCallbacks(&handler{r}))
	resumed := ctx
	if len(call.Resume) > 0 {
		resumed = compose.BatchResumeWithData(ctx, call.Resume)
	}
	for range limit {
		// The interrupt is requested before the step begins. Eino then writes a checkpoint as soon as the nodes
		// that are ready have ended.
		stepCtx, interrupt := compose.WithGraphInterrupt(resumed)
		interrupt()
		err := step(stepCtx, opts)
		if failed := r.failure(); failed != nil {
			return failed
		}
		info, isInterrupt := compose.ExtractInterruptInfo(err)
		if !isInterrupt {
			return err
		}
		if !isEndOfStep(info) {
			return errors.Join(r.ask(ctx, info), err)
		}
		resumed, r.outputs = ctx, nil
	}
	return segno.Errorf(segno.KindRefused, opRun, string(r.thread), "the graph has not ended after %d steps", limit).
		WithHint("run it again to continue, or set Call.MaxSteps")
}

// isEndOfStep reports whether an interrupt is only the one that steps requested. Eino lists each node that ended
// once for that request, and once more if the graph was compiled to be interrupted after the node.
func isEndOfStep(info *compose.InterruptInfo) bool {
	after := slices.Sorted(slices.Values(info.AfterNodes))
	return len(info.BeforeNodes) == 0 && len(info.RerunNodes) == 0 && len(info.SubGraphs) == 0 && len(slices.Compact(after)) == len(info.AfterNodes)
}

// ask records the interrupts of nodes as open questions of the thread.
func (r *run) ask(ctx context.Context, info *compose.InterruptInfo) error {
	var entries []segno.Entry
	for _, i := range info.InterruptContexts {
		if !i.IsRootCause {
			continue
		}
		args := asJSON(i.Info)
		e, err := segno.Interrupt{ID: i.ID, Thread: r.thread, Tool: lastNode(i.Address), Args: args, ArgsHash: segno.HashArgs(args), Reason: segno.ReasonApproval,
			Question: questionOf(i.Info), Allowed: []segno.DecisionKind{segno.Respond}, Asked: time.Now()}.Entry()
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil
	}
	return r.commit(ctx, entries, nil)
}

// loaded returns Eino's checkpoint at the head, or nil.
func (r *run) loaded() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkpoint
}

// save commits Eino's checkpoint of a step, as a checkpoint of the thread.
func (r *run) save(ctx context.Context, checkpoint []byte, value json.RawMessage) error {
	r.streams.Wait()
	r.mu.Lock()
	label := strings.Join(r.ended, ", ")
	r.mu.Unlock()
	err := r.commit(ctx, []segno.Entry{{Kind: segno.EntryState, Name: valueCheckpoint, Body: value}}, &segno.Checkpoint{Kind: segno.CheckpointStep, Label: label})
	if err == nil {
		r.mu.Lock()
		r.checkpoint, r.ended = checkpoint, nil
		r.mu.Unlock()
	}
	return err
}

// finish ends the turn. output is the output for later calls with the same key, or nil.
func (r *run) finish(ctx context.Context, out any, output json.RawMessage) error {
	r.streams.Wait()
	if err := r.failure(); err != nil {
		return err
	}
	r.mu.Lock()
	answered, label := r.answered, strings.Join(r.ended, ", ")
	r.mu.Unlock()
	var entries []segno.Entry
	if text := textOf(out); text != "" && text != answered {
		entries = append(entries, messageEntry(agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Text: text}}}))
	}
	entries = append(entries, segno.Entry{Kind: segno.EntryState, Name: valueCheckpoint})
	if output != nil {
		entries = append(entries, segno.Entry{Kind: segno.EntryState, Name: valueOutput, Body: output})
	}
	return r.commit(ctx, entries, &segno.Checkpoint{Kind: segno.CheckpointTurn, Label: label})
}

// commitTime is how long a commit may take. It does not end with the caller's context, because it records nodes that
// have run.
const commitTime = time.Minute

// commit appends entries to the thread. It fails if another writer moved the thread's head.
func (r *run) commit(ctx context.Context, entries []segno.Entry, cp *segno.Checkpoint) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	now := time.Now()
	for i := range entries {
		entries[i].Turn, entries[i].Time = r.turn, now
	}
	if cp != nil {
		if cp.Kind == segno.CheckpointTurn {
			cp.Key = r.files
		}
		cp.Turn, cp.Time, cp.Agent, cp.Prompt, cp.Step = r.turn, now, agentName, r.prompt, r.step+1
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head, Epoch: r.lease.Epoch(r.head), Entries: entries, Checkpoint: cp}
	commit := r.commitTo(&c)
	head, err := commit(ctx, c)
	for tries := 1; tries < maxTries && (segno.KindOf(err) == segno.KindBusy || segno.KindOf(err) == segno.KindIO) && err != nil; tries++ {
		head, err = commit(ctx, c) // a commit that was applied is not applied again
	}
	if err != nil {
		r.failLocked(fmt.Errorf("record step: %w", err))
		return r.err
	}
	if r.head = head; cp != nil {
		r.step = cp.Step
	}
	return nil
}

// maxTries limits the tries of a commit while the store is busy; it has already waited each time.
const maxTries = 3

// close releases what the run holds.
func (r *run) close(ctx context.Context) {
	r.cancel(nil)
	if r.files != "" {
		_ = r.timeline.EndSteps(context.WithoutCancel(ctx), r.files) // the next run, or a move, ends it otherwise
	}
	r.lease.Release(ctx)
}

// fail stops the run.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

// failLocked is fail for a caller that has r.mu.
func (r *run) failLocked(err error) {
	if r.err == nil {
		r.err = err
		r.cancel(err)
	}
}

// failure returns the error that stopped the run.
func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

var _ callbacks.Handler = (*handler)(nil)
