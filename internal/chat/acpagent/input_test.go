package acpagent_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/store/memory"
)

// recordingModel records the last message of each request.
type recordingModel struct {
	agent.Model
	all *[]agent.Message
}

func (m recordingModel) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	*m.all = append(*m.all, r.Messages[len(r.Messages)-1])
	return m.Model.Generate(ctx, r)
}

// TestNoteBesidePrompt sends a prompt with a note of segno acp. The model receives the note as
// a file beside the prompt.
func TestNoteBesidePrompt(t *testing.T) {
	model := recordingModel{offline.New(), new([]agent.Message)}
	s := serve(t, memory.New(time.Now), t.TempDir(), model)
	id := s.open()
	prompt := func(words string) {
		t.Helper()
		if _, err := fmt.Fprintf(s.raw, `{"jsonrpc":"2.0","id":"raw","method":"session/prompt","params":{"sessionId":%q,"prompt":[`+
			`{"type":"text","text":%q,"_meta":{"segno":{"note":true}}},{"type":"text","text":%q}]}}`+"\n", id,
			"This is a record.\n\nThat is the record. The message that follows is the user's; answer it.\n\nNote: all is well.", words); err != nil {
			t.Fatal(err)
		}
	}
	prompt("say hi")
	prompt("/checkpoints")
	s.turns(id, "say done") // it waits for the earlier prompts
	if text := s.client.text(); !strings.HasPrefix(text, "hi") || !strings.Contains(text, "t1 ") || !strings.HasSuffix(text, "done") {
		t.Errorf("the agent's text is %q", text)
	}
	if len(*model.all) != 2 {
		t.Fatalf("the model received %d requests", len(*model.all))
	}
	parts := (*model.all)[0].Parts
	if len(parts) != 2 || parts[0].Text != "say hi" || parts[1].File == nil || parts[1].File.Type != "text/plain" {
		t.Fatalf("the model received %+v", parts)
	}
	for _, want := range []string{"This is a record.", "The message that this comes with is the user's", "Note: all is well."} {
		if record := string(parts[1].File.Data); !strings.Contains(record, want) {
			t.Errorf("the note is %q", record)
		}
	}
}

// TestRepeatedPrompt sends prompts that may have been sent before. The agent runs such a prompt
// once: it continues the turn, or sends the answer again. If the client received no answer to
// the earlier prompt and its turn has ended, the prompt counts as another one with the same
// text.
func TestRepeatedPrompt(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	s.client.setChoice(chosen("allow"))
	id := s.open()
	prompt := func(repeated, answered bool, link string) {
		t.Helper()
		if _, err := fmt.Fprintf(s.raw, `{"jsonrpc":"2.0","id":"raw","method":"session/prompt","params":{"sessionId":%q,"prompt":[`+
			`{"type":"text","text":"","_meta":{"segno":{"note":true,"repeated":%v,"answered":%v}}},{"type":"text","text":"run echo x >> ledger"},`+
			`{"type":"resource","resource":{"uri":"file:///%s","blob":"AAEC","mimeType":"application/octet-stream"}}]}}`+"\n", id, repeated, answered, link); err != nil {
			t.Fatal(err)
		}
		s.turns(id, "/checkpoints") // it waits for the prompt
	}
	for i, c := range []struct {
		repeated, answered bool
		link               string
		want               int
	}{{false, false, "a", 1}, {true, true, "a", 1}, {true, false, "a", 2}, {true, true, "b", 3}, {true, true, "b", 3}, {false, false, "b", 4}} {
		prompt(c.repeated, c.answered, c.link)
		if text, err := os.ReadFile(filepath.Join(s.dir, "ledger")); err != nil || len(text) != 2*c.want {
			t.Errorf("%d: %+v: the ledger has %q, %v", i, c, text, err)
		}
	}
	if n := strings.Count(s.client.text(), "ran `echo x >> ledger`"); n != 6 {
		t.Errorf("the agent answered %d times:\n%s", n, s.client.text())
	}
}
