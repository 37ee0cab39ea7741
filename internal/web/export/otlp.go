package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
)

// The spans of OTLP/JSON. Each line is a TracesData, as in the output of the OpenTelemetry file
// exporter. The names of attributes are those of the semantic conventions for generative AI
// (open-telemetry/semantic-conventions-genai, status Development), which refer to version 1.41.1 of
// the general conventions.

const otlpSchema = "https://opentelemetry.io/schemas/1.41.1"

type otlpTraces struct {
	Resources []otlpResource `json:"resourceSpans"`
}

type otlpResource struct {
	Resource otlpAttributes `json:"resource"`
	Scopes   []otlpScope    `json:"scopeSpans"`
}

type otlpAttributes struct {
	Attributes []otlpAttribute `json:"attributes"`
}

type otlpScope struct {
	Scope  otlpName   `json:"scope"`
	Spans  []otlpSpan `json:"spans"`
	Schema string     `json:"schemaUrl"`
}

type otlpName struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type otlpSpan struct {
	Trace      string          `json:"traceId"`
	ID         string          `json:"spanId"`
	Parent     string          `json:"parentSpanId,omitempty"`
	Name       string          `json:"name"`
	Kind       int             `json:"kind"`
	Start      string          `json:"startTimeUnixNano"`
	End        string          `json:"endTimeUnixNano"`
	Attributes []otlpAttribute `json:"attributes"`
	Status     *otlpStatus     `json:"status,omitempty"`
}

const (
	otlpInternal = 1 // SPAN_KIND_INTERNAL
	otlpError    = 2 // STATUS_CODE_ERROR
)

type otlpStatus struct {
	Code int `json:"code"`
}

type otlpAttribute struct {
	Key   string    `json:"key"`
	Value otlpValue `json:"value"`
}

// otlpValue is one of a string, an integer (as text) and a boolean.
type otlpValue struct {
	String *string `json:"stringValue,omitempty"`
	Int    string  `json:"intValue,omitempty"`
	Bool   *bool   `json:"boolValue,omitempty"`
}

// writeOTLP writes a trace for each turn: the span of the agent, and below it the spans of its tools and subagents.
func writeOTLP(w io.Writer, s Source) error {
	for t, err := range s.Turns() {
		if err != nil {
			return err
		}
		if !t.IsTurn() {
			continue
		}
		scope := otlpScope{Scope: otlpName{"github.com/dalsegno/segno", s.Version}, Schema: otlpSchema, Spans: spansOf(t, s.Header.Thread)}
		resource := otlpResource{Resource: otlpAttributes{[]otlpAttribute{stringOf("service.name", "segno")}}, Scopes: []otlpScope{scope}}
		if err := encode(w, otlpTraces{[]otlpResource{resource}}); err != nil {
			return err
		}
	}
	for _, child := range s.Children {
		if err := writeOTLP(w, child); err != nil {
			return err
		}
	}
	return nil
}

// idOf returns an id of n bytes in hex. It depends only on parts, so a second export has the same ids.
func idOf(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

func stringOf(key, value string) otlpAttribute {
	value = text(value)
	return otlpAttribute{key, otlpValue{String: &value}}
}

func intOf(key string, value int) otlpAttribute {
	return otlpAttribute{key, otlpValue{Int: fmt.Sprint(value)}}
}

func boolOf(key string, value bool) otlpAttribute {
	return otlpAttribute{key, otlpValue{Bool: &value}}
}

// period sets the times of a span. If one time is unknown, both are the same.
func (s *otlpSpan) period(start, end time.Time) {
	if start.IsZero() {
		start = end
	}
	if end.Before(start) {
		end = start
	}
	s.Start, s.End = fmt.Sprint(max(0, start.UnixNano())), fmt.Sprint(max(0, end.UnixNano()))
}

func spansOf(t *Turn, thread segno.ThreadID) []otlpSpan {
	c := &t.Checkpoint
	trace := idOf(16, "trace", string(c.Thread), string(c.ID))
	root := otlpSpan{Trace: trace, ID: idOf(8, "turn", string(c.ID)), Name: strings.TrimSpace("invoke_agent " + text(c.Agent)), Kind: otlpInternal}
	root.period(t.Start, t.End)
	root.Attributes = append(agentAttributes(t, thread),
		stringOf("gen_ai.input.messages", messagesOf("user", t.Prompt)),
		stringOf("gen_ai.output.messages", messagesOf("assistant", t.Answer())),
		stringOf("segno.thread.id", string(c.Thread)), intOf("segno.turn", c.Turn), stringOf("segno.checkpoint.id", string(c.ID)),
		intOf("segno.files.added", c.Files.Added), intOf("segno.files.modified", c.Files.Modified), intOf("segno.files.deleted", c.Files.Deleted),
		boolOf("segno.undone", t.Undone))
	if u := history.NewUsage(t.Usage, nil); u != nil {
		root.Attributes = append(root.Attributes, intOf("gen_ai.usage.input_tokens", int(u.Input)), intOf("gen_ai.usage.output_tokens", int(u.Output)))
		if u.CacheRead != nil {
			root.Attributes = append(root.Attributes, intOf("gen_ai.usage.cache_read.input_tokens", int(*u.CacheRead)))
		}
		if u.CacheWrite != nil {
			root.Attributes = append(root.Attributes, intOf("gen_ai.usage.cache_creation.input_tokens", int(*u.CacheWrite)))
		}
	}
	if c.Interrupted {
		root.Attributes = append(root.Attributes, stringOf("error.type", "interrupted"))
		root.Status = &otlpStatus{otlpError}
	}
	spans := []otlpSpan{root}
	for i, it := range t.Items {
		if it.Call != nil {
			spans = append(spans, toolSpan(it.Call, trace, root.ID, fmt.Sprint(i)))
		}
	}
	for _, sub := range t.Subagents {
		spans = append(spans, subagentSpans(t, &sub, trace, root.ID)...)
	}
	return spans
}

func agentAttributes(t *Turn, thread segno.ThreadID) []otlpAttribute {
	all := []otlpAttribute{stringOf("gen_ai.operation.name", "invoke_agent"), stringOf("gen_ai.agent.name", t.Checkpoint.Agent)}
	if provider := providerOf(t); provider != "" {
		all = append(all, stringOf("gen_ai.provider.name", provider))
	}
	if t.Model != "" {
		all = append(all, stringOf("gen_ai.request.model", t.Model))
	}
	if p := t.Checkpoint.Session; p != nil && p.Version != "" {
		all = append(all, stringOf("gen_ai.agent.version", p.Version))
	}
	return append(all, stringOf("gen_ai.conversation.id", string(thread)))
}

func subagentSpans(t *Turn, sub *Subagent, trace, parent string) []otlpSpan {
	root := otlpSpan{Trace: trace, ID: idOf(8, "subagent", string(t.Checkpoint.ID), sub.ID), Parent: parent, Name: "invoke_agent " + text(sub.ID), Kind: otlpInternal}
	var start, end time.Time
	spans := []otlpSpan{root}
	for i, c := range sub.Calls {
		if start.IsZero() || !c.Start.IsZero() && c.Start.Before(start) {
			start = c.Start
		}
		if c.End.After(end) {
			end = c.End
		}
		spans = append(spans, toolSpan(c, trace, root.ID, fmt.Sprint(i)))
	}
	spans[0].period(start, end)
	spans[0].Attributes = []otlpAttribute{stringOf("gen_ai.operation.name", "invoke_agent"), stringOf("gen_ai.agent.id", sub.ID)}
	return spans
}

func toolSpan(c *turns.Call, trace, parent, number string) otlpSpan {
	s := otlpSpan{Trace: trace, ID: idOf(8, "call", parent, number, c.ID), Parent: parent, Name: "execute_tool " + text(c.Tool), Kind: otlpInternal}
	end := c.End
	if end.IsZero() {
		end = c.Start
	}
	s.period(c.Start, end)
	s.Attributes = []otlpAttribute{stringOf("gen_ai.operation.name", "execute_tool"), stringOf("gen_ai.tool.name", c.Tool), stringOf("gen_ai.tool.call.id", c.ID),
		stringOf("gen_ai.tool.call.arguments", string(c.Input))}
	if c.Done {
		s.Attributes = append(s.Attributes, stringOf("gen_ai.tool.call.result", c.Result))
	}
	switch {
	case c.Failed:
		s.Attributes = append(s.Attributes, stringOf("error.type", "tool_error"))
		s.Status = &otlpStatus{otlpError}
	case !c.Done:
		s.Attributes = append(s.Attributes, stringOf("error.type", "no_result"))
		s.Status = &otlpStatus{otlpError}
	}
	return s
}

// messagesOf returns the JSON of one message with one text, in the form of the conventions.
func messagesOf(role, words string) string {
	message := map[string]any{"role": role, "parts": []map[string]string{{"type": "text", "content": text(words)}}}
	if role == "assistant" {
		message["finish_reason"] = "stop"
	}
	out, err := json.Marshal([]any{message})
	if err != nil {
		return "[]"
	}
	return string(out)
}

// providerOf returns the provider of the model if its name shows it, else "".
func providerOf(t *Turn) string {
	model := strings.ToLower(t.Model)
	if provider, _, ok := strings.Cut(model, "/"); ok {
		return provider
	}
	for prefix, provider := range map[string]string{"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "gemini": "gcp.gemini"} {
		if strings.HasPrefix(model, prefix) {
			return provider
		}
	}
	return ""
}
