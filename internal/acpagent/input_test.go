package acpagent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/store/memory"
)

// heard is a model that keeps what it was asked.
type heard struct {
	agent.Model
	all *[]agent.Message
}

func (m heard) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	*m.all = append(*m.all, r.Messages[len(r.Messages)-1])
	return m.Model.Generate(ctx, r)
}

// TestWhatIsToldIsNotThePrompt has segno acp tell something before a prompt: the model is
// given both, apart from each other.
func TestWhatIsToldIsNotThePrompt(t *testing.T) {
	model := heard{offline.New(), new([]agent.Message)}
	s := serve(t, memory.New(time.Now), t.TempDir(), model)
	id := s.open()
	prompt := func(words string) {
		t.Helper()
		if _, err := fmt.Fprintf(s.raw, `{"jsonrpc":"2.0","id":"raw","method":"session/prompt","params":{"sessionId":%q,"prompt":[`+
			`{"type":"text","text":%q,"_meta":{"segno":{"told":true}}},{"type":"text","text":%q}]}}`+"\n", id,
			"This is a record.\n\nThat is the record. The message that follows is the user's; answer it.\n\nNote: all is well.", words); err != nil {
			t.Fatal(err)
		}
	}
	prompt("say hi")
	prompt("/checkpoints")
	s.talk(id, "say done") // it waits for the others
	if said := s.client.text(); !strings.HasPrefix(said, "hi") || !strings.Contains(said, "turn 1") || !strings.HasSuffix(said, "done") {
		t.Errorf("it says %q", said)
	}
	if len(*model.all) != 2 {
		t.Fatalf("the model is asked %d times", len(*model.all))
	}
	parts := (*model.all)[0].Parts
	if len(parts) != 2 || parts[0].Text != "say hi" || parts[1].File == nil || parts[1].File.Type != "text/plain" {
		t.Fatalf("the model is given %+v", parts)
	}
	for _, want := range []string{"This is a record.", "The message that this comes with is the user's", "Note: all is well."} {
		if record := string(parts[1].File.Data); !strings.Contains(record, want) {
			t.Errorf("beside the prompt it is told %q", record)
		}
	}
}
