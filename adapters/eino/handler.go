package segnoeino

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// handler records the nodes of a run: a node's beginning before it runs, so that a crash does not hide it, and its
// output when it ends.
type handler struct{ *run }

// node is a node, or a tool, that is running.
type node struct {
	id   string // of the call
	own  bool   // the id is the one that the model gave, and no other running call has it
	name string
	kind components.Component
	path string

	recorded json.RawMessage // its output, if it ended in an earlier try of the step
	output   json.RawMessage // its output, if it can be recorded
}

type nodeKey struct{}

// hasEffects reports whether a crash during the node is reported. It is not for components that only read. A node
// of a nested graph is a part of the outer node; tools are reported in any graph.
func (n *node) hasEffects() bool {
	switch n.kind {
	case components.ComponentOfTool:
		return true
	case components.ComponentOfPrompt, components.ComponentOfChatModel, components.ComponentOfEmbedding,
		components.ComponentOfRetriever, components.ComponentOfLoader, components.ComponentOfTransformer:
		return false
	}
	return !strings.Contains(n.path, "/")
}

// isCall reports whether the conversation shows the node as a call. The message of a model has the calls of its tools.
func (n *node) isCall() bool {
	return n.kind != components.ComponentOfTool && n.kind != components.ComponentOfChatModel
}

// intent is the body of the entry that precedes an effect, as a Go agent records it.
type intent struct {
	Title string          `json:"title"`
	Kind  string          `json:"kind"`
	Input json.RawMessage `json:"input"`
}

// outcome is the body of the entry that follows an effect.
type outcome struct {
	OK          bool   `json:"ok,omitempty"`
	Error       string `json:"error,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"` // the node asks a question and runs again with the answer
	Lost        bool   `json:"lost,omitempty"`        // a crash lost the result, and the caller allowed the node to run again

	Component components.Component `json:"component,omitempty"`
	Output    json.RawMessage      `json:"output,omitempty"` // for [InvokableLambda] and [OnceTools]
	Call      segno.Hash           `json:"call,omitzero"`    // for [OnceTools]: of the tool's name and arguments
}

// start records that a node begins. A callback of Eino returns no error; its panic is the error of the node, which then
// does not run.
func (h *handler) start(ctx context.Context, info *callbacks.RunInfo, input any) context.Context {
	path := nodePath(compose.GetCurrentAddress(ctx))
	switch {
	case info == nil:
		return ctx
	case path == "":
		// This is the graph of the run. It has read the channel of its interrupt. Nested graphs get another
		// channel, because Eino's does not serve two graphs.
		ctx, _ = compose.WithGraphInterrupt(ctx)
		return ctx
	case info.Component == compose.ComponentOfToolsNode || info.Component == compose.ComponentOfPassthrough:
		return ctx
	}
	n := &node{id: segno.NewID(), name: path, kind: info.Component, path: path}
	if n.kind == components.ComponentOfTool {
		n.name = info.Name
		if id := compose.GetToolCallID(ctx); h.claim(id) {
			n.id, n.own = id, true
		}
		if in := tool.ConvCallbackInput(input); in != nil {
			input = json.RawMessage(in.ArgumentsInJSON)
		}
	}
	if n.kind == compose.ComponentOfLambda {
		n.recorded = h.takeOutput(outputKey{id: path})
	}
	ctx = context.WithValue(ctx, nodeKey{}, n)
	if n.recorded != nil {
		return ctx // it returns what is recorded
	}
	args := segno.Clip(asJSON(input))
	var entries []segno.Entry
	if n.hasEffects() {
		entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: n.id, Name: n.name, Body: body(intent{Title: n.name, Kind: "ask", Input: args})})
	}
	if n.isCall() {
		entries = append(entries, messageEntry(agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: n.id, Name: n.name, Args: args}}}}))
	}
	if len(entries) > 0 {
		if err := h.commit(ctx, entries, nil); err != nil {
			panic(err)
		}
	}
	return ctx
}

// claim reports whether the id of a tool's call may name it in the log. A model may give several calls the same id, or none.
func (h *handler) claim(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id == "" || h.running[id] {
		return false
	}
	if h.running == nil {
		h.running = map[string]bool{}
	}
	h.running[id] = true
	return true
}

// end records the output of a node, or its error.
func (h *handler) end(ctx context.Context, output any, failed error) context.Context {
	n, ok := ctx.Value(nodeKey{}).(*node)
	if !ok || n.path != nodePath(compose.GetCurrentAddress(ctx)) {
		return ctx
	}
	if n.recorded != nil {
		return ctx
	}
	if n.own {
		defer h.release(n.id)
	}
	if failed != nil && n.hasEffects() && !isInterrupt(failed) && h.ctx.Err() != nil {
		return ctx // the node was cancelled and may have had its effect: its result counts as lost
	}
	o := n.outcome(ctx, output, failed)
	entries := n.endEntries(output, o)
	if len(entries) > 0 && h.commit(ctx, entries, nil) != nil {
		return ctx // steps returns the error; the result counts as lost
	}
	if o.OK {
		h.check(ctx, n, output)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.OK && !strings.Contains(n.path, "/") && n.kind != components.ComponentOfTool {
		h.ended = append(h.ended, n.name)
	}
	if out := model.ConvCallbackOutput(output); n.kind == components.ComponentOfChatModel && out != nil {
		h.answered = textOf(out.Message)
	}
	return ctx
}

// release ends the claim of a call.
func (h *handler) release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, id)
}

// outcome returns what the node's result records.
func (n *node) outcome(ctx context.Context, output any, failed error) outcome {
	o := outcome{OK: failed == nil, Component: n.kind, Output: n.output}
	call, isOnce := ctx.Value(onceKey{}).(segno.Hash)
	if out := tool.ConvCallbackOutput(output); isOnce && n.own && n.kind == components.ComponentOfTool && out != nil && out.ToolOutput == nil {
		o.Output, o.Call = asJSON(out.Response), call
	}
	if failed != nil {
		if o.Interrupted = isInterrupt(failed); !o.Interrupted {
			o.Error = failed.Error()
		}
	}
	return o
}

// endEntries returns the entries that record the node's end: its result, its message, and the tokens that it used.
func (n *node) endEntries(output any, o outcome) (entries []segno.Entry) {
	if n.hasEffects() {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: n.id, Name: n.name, Body: body(o)})
	}
	if m, ok := n.message(output, o); ok {
		entries = append(entries, messageEntry(m))
	}
	if out := model.ConvCallbackOutput(output); n.kind == components.ComponentOfChatModel && out != nil && out.TokenUsage != nil {
		entries = append(entries, segno.Entry{Kind: segno.EntryUsage, Name: n.name, Body: asJSON(usageOf(out.TokenUsage))})
	}
	return entries
}

// check stops the run if the node's output, or the state of the graph, cannot be saved.
func (h *handler) check(ctx context.Context, n *node, output any) {
	if n.kind != compose.ComponentOfLambda || strings.Contains(n.path, "/") {
		return // components of Eino have outputs of its own types
	}
	err := checkValue("the output of "+n.name, output)
	if err == nil {
		if stateErr := compose.ProcessState(ctx, func(_ context.Context, state any) error {
			err = checkValue("the state after "+n.name, state)
			return nil
		}); stateErr != nil {
			return // the graph has no state
		}
	}
	if err != nil {
		h.fail(err)
	}
}

// message returns the message that shows the end of the node.
func (n *node) message(output any, o outcome) (m agent.Message, ok bool) {
	if n.kind == components.ComponentOfChatModel {
		out := model.ConvCallbackOutput(output)
		if !o.OK || out == nil || out.Message == nil {
			return m, false
		}
		return FromMessage(out.Message), true
	}
	result := &agent.Result{Call: n.id, Name: n.name}
	switch {
	case o.OK:
		result.Text = resultText(output)
	case o.Interrupted:
		result.Text = "waits for an answer"
	default:
		result.Text, result.Error = o.Error, true
	}
	return agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: result}}}, true
}

// OnStart implements [callbacks.Handler].
func (h *handler) OnStart(ctx context.Context, info *callbacks.RunInfo, input callbacks.CallbackInput) context.Context {
	return h.start(ctx, info, input)
}

// OnStartWithStreamInput implements [callbacks.Handler]. The node reads the stream at the same time, so its
// beginning is recorded without its input.
func (h *handler) OnStartWithStreamInput(ctx context.Context, info *callbacks.RunInfo, input *schema.StreamReader[callbacks.CallbackInput]) context.Context {
	input.Close()
	return h.start(ctx, info, nil)
}

// OnEnd implements [callbacks.Handler].
func (h *handler) OnEnd(ctx context.Context, _ *callbacks.RunInfo, output callbacks.CallbackOutput) context.Context {
	return h.end(ctx, output, nil)
}

// OnError implements [callbacks.Handler].
func (h *handler) OnError(ctx context.Context, _ *callbacks.RunInfo, err error) context.Context {
	return h.end(ctx, nil, err)
}

// OnEndWithStreamOutput implements [callbacks.Handler]. A node has ended when its output has been read.
func (h *handler) OnEndWithStreamOutput(ctx context.Context, _ *callbacks.RunInfo, output *schema.StreamReader[callbacks.CallbackOutput]) context.Context {
	n, ok := ctx.Value(nodeKey{}).(*node)
	if !ok || n.path != nodePath(compose.GetCurrentAddress(ctx)) {
		output.Close()
		return ctx
	}
	h.streams.Go(func() {
		defer output.Close()
		var chunks []any
		for {
			chunk, err := output.Recv()
			switch {
			case errors.Is(err, io.EOF):
				out, err := concat(chunks)
				h.end(ctx, out, err)
				return
			case err != nil:
				h.end(ctx, nil, err)
				return
			}
			chunks = append(chunks, chunk)
		}
	})
	return ctx
}

// isInterrupt reports whether a node, or a graph in it, asks a question.
func isInterrupt(err error) bool {
	if _, ok := compose.IsInterruptRerunError(err); ok {
		return true
	}
	_, ok := compose.ExtractInterruptInfo(err)
	return ok
}

// nodePath returns the keys of the nodes of an address, outermost first, or "" for the graph of a run.
func nodePath(address compose.Address) string {
	var keys []string
	for _, s := range address {
		if s.Type == compose.AddressSegmentNode {
			keys = append(keys, s.ID)
		}
	}
	return strings.Join(keys, "/")
}

// lastNode returns the node, or the tool, at which a run was interrupted.
func lastNode(address compose.Address) string {
	if n := len(address); n > 0 && address[n-1].Type == compose.AddressSegmentTool {
		return address[n-1].ID
	}
	return nodePath(address)
}
