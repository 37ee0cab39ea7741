package agent_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dalsegno/segno/agent"
)

// tracer keeps the spans that are created.
type tracer struct {
	noop.Tracer
	mu    sync.Mutex
	spans []*span
}

// span is a span of a tracer.
type span struct {
	noop.Span
	name   string
	kind   trace.SpanKind
	parent *span
	attrs  map[attribute.Key]attribute.Value
	status codes.Code
	why    string
	ended  bool
}

func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(options...)
	s := &span{name: name, kind: c.SpanKind(), attrs: map[attribute.Key]attribute.Value{}}
	s.parent, _ = trace.SpanFromContext(ctx).(*span)
	s.SetAttributes(c.Attributes()...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans = append(t.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) SetAttributes(attrs ...attribute.KeyValue) {
	for _, a := range attrs {
		s.attrs[a.Key] = a.Value
	}
}

func (s *span) SetStatus(c codes.Code, why string)            { s.status, s.why = c, why }
func (s *span) RecordError(err error, _ ...trace.EventOption) { s.why += err.Error() }
func (s *span) End(...trace.SpanEndOption)                    { s.ended = true }

// tree returns the names of the spans, each after those of its ancestors, sorted.
func (t *tracer) tree() (names []string) {
	for _, s := range t.spans {
		name := s.name
		for p := s.parent; p != nil; p = p.parent {
			name = p.name + " > " + name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestSpansDescribeOperations(t *testing.T) {
	rec := &tracer{}
	r := newRig(t).helped().with(func(c *agent.Config) { c.Tracer, c.Name = rec, "secretary" })
	r.prompt("write a.txt: one ; task scout: read a.txt")
	const run = "invoke_agent secretary"
	want := []string{run, run + " > chat plain", run + " > execute_tool task",
		run + " > execute_tool task > invoke_agent scout", run + " > execute_tool task > invoke_agent scout > chat plain",
		run + " > execute_tool task > invoke_agent scout > execute_tool read_file", run + " > execute_tool write_file"}
	if got := rec.tree(); !slices.Equal(got, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range rec.spans {
		if !s.ended || s.status == codes.Error {
			t.Errorf("%s: ended %v, status %s", s.name, s.ended, s.status)
		}
		operation, what, _ := strings.Cut(s.name, " ")
		wants := map[attribute.Key]string{"gen_ai.operation.name": operation}
		switch operation {
		case "invoke_agent":
			wants["gen_ai.agent.name"] = what
			if what == "secretary" {
				wants["gen_ai.conversation.id"] = thread
			}
		case "chat":
			wants["gen_ai.provider.name"], wants["gen_ai.request.model"] = "offline", what
			if s.kind != trace.SpanKindClient {
				t.Errorf("%s is of kind %s", s.name, s.kind)
			}
			if s.attrs["gen_ai.usage.input_tokens"].AsInt64() == 0 || s.attrs["gen_ai.usage.output_tokens"].AsInt64() == 0 ||
				len(s.attrs["gen_ai.response.finish_reasons"].AsStringSlice()) != 1 {
				t.Errorf("%s does not say what it cost: %v", s.name, s.attrs)
			}
		case "execute_tool":
			wants["gen_ai.tool.name"] = what
			if s.attrs["gen_ai.tool.call.id"].AsString() == "" {
				t.Errorf("%s does not say which call", s.name)
			}
		}
		for key, value := range wants {
			if got := s.attrs[key].AsString(); got != value {
				t.Errorf("%s: %s is %q, want %q", s.name, key, got, value)
			}
		}
	}
}

func TestSpansContainNoContent(t *testing.T) {
	rec := &tracer{}
	r := newRig(t).helped().with(func(c *agent.Config) { c.Tracer, c.System = rec, "SECRET system" })
	_, err := r.try(agent.Input{Prompt: "think SECRET thought\nwrite SECRET.txt: SECRET\nread SECRET.txt ; task scout: say SECRET\n" + askMail})
	r.ok(err)
	r.finish(reject(r.question(), "SECRET reason"))
	r.with(func(c *agent.Config) {
		c.Model = &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
			return agent.Reply{}, errors.New("SECRET in a server's error")
		}}
	})
	if _, err := r.try(agent.Input{Prompt: "SECRET"}); err == nil {
		t.Fatal("it succeeds")
	}
	failed := 0
	for _, s := range rec.spans {
		if !s.ended {
			t.Errorf("%s is not ended", s.name)
		}
		if s.status == codes.Error {
			failed++
		}
		for _, key := range slices.Sorted(maps.Keys(s.attrs)) {
			if strings.Contains(s.attrs[key].String(), "SECRET") {
				t.Errorf("%s: %s is %s", s.name, key, s.attrs[key].String())
			}
		}
		if strings.Contains(s.name+s.why, "SECRET") {
			t.Errorf("%s: %s", s.name, s.why)
		}
	}
	if failed != 2 {
		t.Errorf("%d spans failed, want the model's and the run's", failed)
	}
}
