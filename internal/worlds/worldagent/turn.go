package worldagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/file"
)

// Config describes one turn of an agent.
type Config struct {
	Dir    string // the workspace
	Prompt string
	System string // the system prompt, or ""
	// Conversation is the directory of the store that has the conversation, and ID the thread in it.
	Conversation, ID string
	// World is the address of the world's API, and Ticket the session of the agent in the world.
	World, Ticket string
}

// The tools of segno's own agent for the world.
const (
	toolManual   = "world_manual"
	toolObserve  = "observe"
	toolAct      = "act"
	toolRemember = "remember"
)

// memoryFile is the agent's memory in its workspace: one note per line, in JSON.
const memoryFile = "EPISODIC_MEMORY.jsonl"

// Turn runs one turn of segno's own agent, and returns its last words. If the previous turn was interrupted, Turn
// continues it, and the model learns of each call with a lost result.
func Turn(ctx context.Context, model agent.Model, c Config) (words string, err error) {
	store, err := file.Open(ctx, c.Conversation, file.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return "", segno.NewError(segno.KindIO, "run agent", c.Dir, err)
	}
	defer root.Close()
	w := &world{url: c.World, session: c.Ticket}
	a := agent.New(agent.Config{Model: model, System: c.System, Store: store, Answer: answerLost,
		Tools: append(w.tools(root), tool.Deep(c.Dir, root)...)})
	lost, err := decideLost(ctx, a, c.ID)
	if err != nil {
		return "", err
	}
	out, err := a.Run(ctx, agent.Input{Thread: c.ID, Prompt: c.Prompt, Decide: lost})
	if err == nil && len(out.Interrupts) > 0 {
		err = segno.Errorf(segno.KindRefused, "run agent", c.ID, "it waits for a decision")
	}
	return out.Text, errors.Join(err, w.failure())
}

// decideLost returns the answers to the questions of an interrupted turn. No other turn can begin before these answers.
func decideLost(ctx context.Context, a *agent.Agent, thread string) ([]segno.Decision, error) {
	s, err := a.Reask(ctx, thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil // this is the first turn
	}
	if err != nil {
		return nil, err
	}
	return answerLost(ctx, s.Interrupts)
}

// lostText tells the model that the result of a call was lost.
const lostText = "The connection was lost before the result arrived. The call may have taken effect: look before you repeat it."

// answerLost informs the model about calls whose results were lost when their turn was interrupted.
func answerLost(_ context.Context, open []segno.Interrupt) (all []segno.Decision, _ error) {
	for _, i := range open {
		all = append(all, segno.Decision{Interrupt: i.ID, Kind: segno.Respond, Text: lostText})
	}
	return all, nil
}

func (w *world) tools(root *os.Root) []agent.Tool {
	return []agent.Tool{
		w.tool(toolManual, "Returns the manual of the world: what you perceive there and how you act.", `{"type":"object","properties":{}}`, agent.LostRerun,
			func(ctx context.Context, _ json.RawMessage) ([]byte, error) {
				return w.call(ctx, http.MethodGet, "/api.md", nil)
			}),
		w.tool(toolObserve, "Returns what you perceive in the world now. It changes nothing.", `{"type":"object","properties":{}}`, agent.LostRerun,
			func(ctx context.Context, _ json.RawMessage) ([]byte, error) {
				return w.call(ctx, http.MethodGet, "/observe", nil)
			}),
		w.tool(toolAct, "Acts in the world, and returns what you perceive then. The manual describes the actions.",
			`{"type":"object","properties":{"action":{"type":"object","description":"the action, as the manual describes it"}},"required":["action"]}`, agent.LostAsk,
			func(ctx context.Context, args json.RawMessage) ([]byte, error) {
				var a struct {
					Action json.RawMessage `json:"action"`
				}
				if err := json.Unmarshal(args, &a); err != nil {
					return nil, err
				}
				return w.call(ctx, http.MethodPost, "/act", a.Action)
			}),
		w.tool(toolRemember, "Adds a note to "+memoryFile+" in your working directory.",
			`{"type":"object","properties":{"note":{"type":"object","description":"what to remember, as JSON"}},"required":["note"]}`, agent.LostAsk,
			func(_ context.Context, args json.RawMessage) ([]byte, error) {
				var a struct {
					Note json.RawMessage `json:"note"`
				}
				if err := json.Unmarshal(args, &a); err != nil {
					return nil, err
				}
				return []byte("noted"), remember(root, a.Note)
			}),
	}
}

// tool returns a tool that calls run with the arguments.
func (w *world) tool(name, about, schema string, lost agent.OnLost, run func(context.Context, json.RawMessage) ([]byte, error)) agent.Tool {
	return agent.Tool{ToolSpec: agent.ToolSpec{Name: name, Description: about, Schema: json.RawMessage(schema)}, OnLost: lost, Pages: true,
		Run: func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			data, err := run(ctx, inv.Args)
			return agent.Result{Text: string(data)}, err
		}}
}

// remember adds a note to the memory in a workspace.
func remember(root *os.Root, note json.RawMessage) (err error) {
	f, err := root.OpenFile(filepath.Clean(memoryFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open %s: %w", memoryFile, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(note, '\n'))
	return err
}
