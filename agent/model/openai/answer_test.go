package openai_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"

	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestAnAnswerIsStreamed(t *testing.T) {
	s := newServer(t, whole("stop", `{"content":"One"}`, `{"content":" two"}`, `{"content":null}`, `{"content":" three"}`))
	pieces, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"One", " two", " three"}; !reflect.DeepEqual(pieces, want) {
		t.Errorf("pieces are %q, want %q", pieces, want)
	}
	m := reply.Message
	if m.Role != agent.Assistant || m.Model != "openai/test" || m.Text() != "One two three" || reply.Stop != agent.StopEnd {
		t.Errorf("the reply is %+v", reply)
	}
	if want := (agent.Usage{Input: 60, Output: 7, CacheRead: 30}); reply.Usage != want {
		t.Errorf("usage is %+v, want %+v", reply.Usage, want)
	}
}

func TestCallsAreAssembled(t *testing.T) {
	for name, c := range map[string]struct {
		deltas []string
		want   string
	}{
		"in pieces, at once": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"ls","arguments":"{"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"x\"}"}},{"index":1,"function":{"arguments":"}"}}]}`,
		}, `a read {"path":"x"}|b ls {}`},
		"whole, all of number 0": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":\"x\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"ls","arguments":"{}"}}]}`,
		}, `a read {"path":"x"}|b ls {}`},
		"the id each time": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"\"x\"}"}}]}`,
		}, `a read {"path":"x"}`},
		"without ids or arguments": {[]string{
			`{"tool_calls":[{"index":0,"function":{"name":"ls"}},{"index":1,"function":{"name":"pwd"}}]}`,
		}, `call_0 ls {}|call_1 pwd {}`},
		"without ids, all of number 0": {[]string{
			`{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"path\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"\"x\"}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"read","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"path\":\"y\"}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{}"}}]}`,
		}, `call_0 read {"path":"x"}|call_1 read {"path":"y"}|call_2 ls {}`},
		"without ids or numbers, at once": {[]string{
			`{"tool_calls":[{"id":"","function":{"name":"ls","arguments":""}},{"id":"","function":{"name":"ls","arguments":"{\"x\":2}"}}]}`,
		}, `call_0 ls {}|call_1 ls {"x":2}`},
		"another id for the rest": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"{\"path\":\"x\"}"}}]}`,
		}, `a read {"path":"x"}`},
		"arguments that are an object": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":{"path":"x"}}}]}`,
		}, `a read {"path":"x"}`},
		"null": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"null"}}]}`,
		}, `a ls {}`},
		"no JSON": {[]string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{path: <x>"}}]}`,
		}, `a ls "{path: <x>"`},
	} {
		for _, finish := range []string{"tool_calls", "stop"} {
			s := newServer(t, whole(finish, c.deltas...))
			_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var got []string
			for _, c := range reply.Message.Calls() {
				got = append(got, c.ID+" "+c.Name+" "+string(c.Args))
			}
			if strings.Join(got, "|") != c.want || reply.Stop != agent.StopTools {
				t.Errorf("%s: %q, stop %s", name, got, reply.Stop)
			}
		}
	}
}

func TestReasonsToStop(t *testing.T) {
	for finish, want := range map[string]agent.Stop{"stop": agent.StopEnd, "length": agent.StopLength, "content_filter": agent.StopRefusal} {
		s := newServer(t, whole(finish, ok))
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Stop != want {
			t.Errorf("%s: %+v, %v", finish, reply, err)
		}
	}
	s := newServer(t, whole("stop", `{"refusal":"I will"}`, `{"refusal":" not"}`))
	if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Stop != agent.StopRefusal || reply.Message.Text() != "I will not" {
		t.Errorf("a refusal: %+v, %v", reply, err)
	}
}

func TestTruncatedCallIsDropped(t *testing.T) {
	for finish, stop := range map[string]agent.Stop{"length": agent.StopLength, "content_filter": agent.StopRefusal} {
		for _, args := range []string{``, `{\"path\":\"/tmp`} {
			s := newServer(t, whole(finish, `{"content":"I delete"}`,
				`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`,
				`{"tool_calls":[{"index":1,"id":"b","function":{"name":"delete","arguments":"`+args+`"}}]}`))
			_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
			if err != nil {
				t.Fatal(err)
			}
			if calls := reply.Message.Calls(); len(calls) != 1 || calls[0].ID != "a" || reply.Stop != stop {
				t.Errorf("%s: %+v", finish, reply)
			}
		}
	}
}

func TestAnswerIsCompleteWithFinishReason(t *testing.T) {
	without := events(delta(ok), `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	for name, answer := range map[string]http.HandlerFunc{
		"no usage, no [DONE]": without,
		"the connection breaks": func(w http.ResponseWriter, r *http.Request) {
			without(w, r)
			panic(http.ErrAbortHandler)
		},
	} {
		s := newServer(t, answer)
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Message.Text() != "ok" {
			t.Errorf("%s: %v, %v", name, reply, err)
		}
	}
}
