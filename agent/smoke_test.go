package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/memory"
	"time"
)

func TestSmoke(t *testing.T) {
	store := memory.New(time.Now)
	sent := 0
	mail := agent.NewTool("send_email", "send", agent.AskAgain, func(ctx context.Context, inv *agent.Invocation, a struct {
		To string `json:"to"`
	}) (string, error) {
		sent++
		return "sent to " + a.To, nil
	})
	a := agent.New(agent.Config{Model: offline.New(), Store: store, Tools: append(tool.Standard(), mail), Approve: agent.Ask("send_email"),
		Subagents: []agent.Subagent{{Name: "helper", Description: "helps"}}})
	run := func(in agent.Input) {
		for e, err := range a.Run(t.Context(), in) {
			b, _ := json.Marshal(e)
			if e.Kind != agent.EventText {
				fmt.Println(string(b), err)
			}
		}
	}
	run(agent.Input{Thread: "x", Prompt: "write a.txt: hello\ntodo buy milk\ncall send_email {\"to\":\"bob\"} ; task helper: write b.txt: from helper"})
	w, err := a.Look(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", w)
	run(agent.Input{Thread: "x", Decide: []segno.Decision{{Interrupt: w.Interrupts[0].ID, Kind: segno.Approve}}})
	fmt.Println("sent", sent)
	w, err = a.Undo(t.Context(), "x", 1)
	fmt.Printf("%+v %v\n", w, err)
}
