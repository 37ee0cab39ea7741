package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno/agent"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// recorder keeps the names of measurements and spans, with their attributes.
type recorder struct {
	mu      sync.Mutex
	values  []string
	spans   []string
	depth   metric.Callback
	lastID  byte
	links   map[string]trace.SpanID // of the spans, by their names
	created map[string]trace.SpanID
}

func (r *recorder) add(to *[]string, name string, attributes attribute.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, name+" "+attributes.Encoded(attribute.DefaultEncoder()))
}

// find returns the lines that begin with a name.
func (r *recorder) find(all []string, name string) (found []string) {
	for _, line := range all {
		if strings.HasPrefix(line, name+" ") {
			found = append(found, line)
		}
	}
	return found
}

type meters struct {
	metricnoop.MeterProvider
	r *recorder
}

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{r: m.r} }

type meter struct {
	metricnoop.Meter
	r *recorder
}

type counter struct {
	metricnoop.Int64Counter
	r    *recorder
	name string
}

func (c counter) Add(_ context.Context, _ int64, o ...metric.AddOption) {
	c.r.add(&c.r.values, c.name, metric.NewAddConfig(o).Attributes())
}

type histogram struct {
	metricnoop.Float64Histogram
	r    *recorder
	name string
}

func (h histogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	if v < 0 {
		h.r.add(&h.r.values, "negative", attribute.NewSet())
	}
	h.r.add(&h.r.values, h.name, metric.NewRecordConfig(o).Attributes())
}

type registration struct{ metricnoop.Registration }

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{r: m.r, name: name}, nil
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{r: m.r, name: name}, nil
}

func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.r.depth = f
	return registration{}, nil
}

type observer struct {
	metricnoop.Observer
	r *recorder
}

func (o observer) ObserveInt64(_ metric.Int64Observable, v int64, options ...metric.ObserveOption) {
	o.r.add(&o.r.values, fmt.Sprintf("open %d", v), metric.NewObserveConfig(options).Attributes())
}

type tracers struct {
	tracenoop.TracerProvider
	r *recorder
}

func (t tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{r: t.r} }

type tracer struct {
	tracenoop.Tracer
	r *recorder
}

func (t tracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(o...)
	t.r.add(&t.r.spans, name, attribute.NewSet(c.Attributes()...))
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.lastID++
	id := trace.SpanID{t.r.lastID}
	t.r.created[name] = id
	for _, l := range c.Links() {
		t.r.links[name] = l.SpanContext.SpanID()
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: id, TraceFlags: trace.FlagsSampled}))
	return ctx, tracenoop.Span{}
}

// A prompt is visible in metrics, spans and logs from its sender to its end. The span of the run links to that of the sender, which may
// be another process. Nothing shows the text of a prompt, or of an error that may contain it.
func TestTelemetry(t *testing.T) {
	r := &recorder{links: map[string]trace.SpanID{}, created: map[string]trace.SpanID{}}
	var lines bytes.Buffer
	var mu sync.Mutex
	f := newRig(t, func(c *Config) {
		c.Meter, c.Tracer = meters{r: r}, tracers{r: r}
		c.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &lines}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	const secret = "the-secret-word"
	failing := runnerFunc(func(context.Context, Work) (Result, error) { return Result{}, fmt.Errorf("the server said %s", secret) })
	good := runnerFunc(func(context.Context, Work) (Result, error) {
		return Result{Phase: agent.PhaseDone, Text: secret}, nil
	})
	w := f.Worker(nil)
	w.Runners, w.MaxAttempts = map[string]Runner{"good": good, "bad": failing}, 1
	for _, name := range []string{"good", "bad"} {
		if _, err := f.Send(t.Context(), Prompt{Thread: name, Agent: name, Text: secret, Key: secret + name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.depth(t.Context(), observer{r: r}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	f.await("good", secret+"good", StateDone)
	f.await("bad", secret+"bad", StateParked)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"segno.fleet.sent": {"gen_ai.agent.name=good,segno.tenant=", "gen_ai.agent.name=bad,segno.tenant="},
		"segno.fleet.attempts": {"gen_ai.agent.name=good,segno.prompt.state=done,segno.tenant=",
			"gen_ai.agent.name=bad,segno.prompt.state=parked,segno.tenant="},
		"segno.fleet.attempt.duration": {"gen_ai.agent.name=good,segno.tenant=", "gen_ai.agent.name=bad,segno.tenant="},
		"segno.fleet.wake.latency":     {"gen_ai.agent.name=good,segno.tenant=", "gen_ai.agent.name=bad,segno.tenant="},
		"open 2":                       {"segno.prompt.state=sent,segno.tenant="},
		"negative":                     nil,
	} {
		got := r.find(r.values, name)
		for i := range want {
			want[i] = name + " " + want[i]
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if got := r.find(r.spans, "run prompt"); len(got) != 2 || !strings.Contains(got[0], "gen_ai.conversation.id=") {
		t.Errorf("the spans are %q", r.spans)
	}
	if link := r.links["run prompt"]; !link.IsValid() || !slices.Contains([]trace.SpanID{{1}, {2}}, link) {
		t.Errorf("the run links to the span %s of %v", link, r.created)
	}
	mu.Lock()
	defer mu.Unlock()
	all := lines.String() + strings.Join(r.values, "\n") + strings.Join(r.spans, "\n")
	for _, want := range []string{"msg=\"a turn begins\"", "msg=\"a turn ends\"", "msg=\"a prompt is parked\"", "thread=good", "agent=bad", "state=parked"} {
		if !strings.Contains(all, want) {
			t.Errorf("the log has no %s:\n%s", want, lines.String())
		}
	}
	if strings.Contains(all, secret) || strings.Contains(all, "River client") {
		t.Errorf("the telemetry has a text, or a line of the queue:\n%s", all)
	}
}

// lockedWriter serializes writes.
type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
