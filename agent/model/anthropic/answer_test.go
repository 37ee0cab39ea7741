package anthropic_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"

	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestAnAnswerIsStreamed(t *testing.T) {
	s := newServer(t, whole("end_turn",
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"One"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" two"}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" three"}}`,
		`{"type":"content_block_stop","index":1}`))
	m := s.model()
	pieces, reply, err := modelrig.Ask(t, m, modelrig.Hello())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"~hm", "One", " two", " three"}; !reflect.DeepEqual(pieces, want) {
		t.Errorf("pieces are %q, want %q", pieces, want)
	}
	msg := reply.Message
	if msg.Role != agent.Assistant || msg.Model != "anthropic/claude-test" || m.Name() != msg.Model || msg.Text() != "One two three" || msg.Parts[0].Thinking.Text != "hm" {
		t.Errorf("the message is %+v", msg)
	}
	if want := (agent.Usage{Input: 60, Output: 7, CacheRead: 30, CacheWrite: 20}); reply.Usage != want {
		t.Errorf("usage is %+v, want %+v", reply.Usage, want)
	}
}

func TestCallsAreAssembled(t *testing.T) {
	s := newServer(t, whole("tool_use",
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"x\"}"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"ls","input":{}}}`,
		`{"type":"content_block_stop","index":1}`))
	_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range reply.Message.Calls() {
		got = append(got, c.ID+" "+c.Name+" "+string(c.Args))
	}
	if want := `a read {"path":"x"}|b ls {}`; strings.Join(got, "|") != want || reply.Stop != agent.StopTools {
		t.Errorf("%q, stop %s", got, reply.Stop)
	}
}

func TestReasonsToStop(t *testing.T) {
	for reason, want := range map[string]agent.Stop{
		"end_turn": agent.StopEnd, "stop_sequence": agent.StopEnd, "max_tokens": agent.StopLength, "refusal": agent.StopRefusal,
		"pause_turn": agent.StopLength, "model_context_window_exceeded": agent.StopLength,
	} {
		s := newServer(t, whole(reason, text("so")...))
		_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		if err != nil || reply.Stop != want {
			t.Errorf("%s: %+v, %v", reason, reply, err)
		}
	}
}

func TestTruncatedCallIsDropped(t *testing.T) {
	whileCalling := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"I delete"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"delete","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"/tmp"}}`,
	}
	stopped := `{"type":"content_block_stop","index":1}`
	nothing := `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`
	for reason, stop := range map[string]agent.Stop{"max_tokens": agent.StopLength, "refusal": agent.StopRefusal} {
		for name, s := range map[string]*server{
			"block ended":            newServer(t, whole(reason, append(whileCalling[:4:4], stopped)...)),
			"block not ended":        newServer(t, whole(reason, whileCalling...)),
			"nothing of it":          newServer(t, whole(reason, whileCalling[:3]...)),
			"nothing of it, ended":   newServer(t, whole(reason, append(whileCalling[:3:3], stopped)...)),
			"a piece without a byte": newServer(t, whole(reason, append(whileCalling[:3:3], nothing, stopped)...)),
		} {
			_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
			if err != nil {
				t.Fatalf("%s, %s: %v", reason, name, err)
			}
			if len(reply.Message.Calls()) > 0 || reply.Stop != stop || reply.Message.Text() != "I delete" {
				t.Errorf("%s, %s: %+v", reason, name, reply)
			}
		}
	}
	s := newServer(t, whole("tool_use", append(whileCalling[:4:4], stopped)...))
	if _, _, err := modelrig.Ask(t, s.model(), modelrig.Hello()); !modelrig.IsTransient(err) {
		t.Errorf("arguments that are not JSON: %v", err)
	}
}
