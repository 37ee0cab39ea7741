package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/internal/schedule"
)

// scope is the name of the fleet's tracer and meter. docs/fleet.md lists their spans, metrics and attributes. None of these contains a
// prompt, an answer, the text of an error, or the key of a prompt.
const scope = "github.com/dalsegno/segno/fleet"

// telemetry has the instruments of a fleet.
type telemetry struct {
	tracer   trace.Tracer
	sent     metric.Int64Counter
	attempts metric.Int64Counter
	duration metric.Float64Histogram
	latency  metric.Float64Histogram
	depth    metric.Registration // or nil
}

// instrument makes the instruments.
func (f *Fleet) instrument() (err error) {
	tracers, meters := f.config.Tracer, f.config.Meter
	if tracers == nil {
		tracers = tracenoop.NewTracerProvider()
	}
	if meters == nil {
		meters = metricnoop.NewMeterProvider()
	}
	t, meter := &f.telemetry, meters.Meter(scope)
	t.tracer = tracers.Tracer(scope)
	var errs [5]error
	t.sent, errs[0] = meter.Int64Counter("segno.fleet.sent", metric.WithUnit("{prompt}"), metric.WithDescription("Prompts that were sent for the first time."))
	t.attempts, errs[1] = meter.Int64Counter("segno.fleet.attempts", metric.WithUnit("{attempt}"), metric.WithDescription("Attempts at prompts that ended."))
	t.duration, errs[2] = meter.Float64Histogram("segno.fleet.attempt.duration", metric.WithUnit("s"), metric.WithDescription("How long an attempt at a prompt took."))
	t.latency, errs[3] = meter.Float64Histogram("segno.fleet.wake.latency", metric.WithUnit("s"),
		metric.WithDescription("From the time for which a wake was due to the begin of the attempt."))
	var open metric.Int64ObservableGauge
	open, errs[4] = meter.Int64ObservableGauge("segno.fleet.prompts.open", metric.WithUnit("{prompt}"), metric.WithDescription("Prompts that have not ended."))
	for _, e := range errs {
		err = cmp.Or(err, e)
	}
	if err != nil || f.config.Meter == nil {
		return err
	}
	t.depth, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		s, err := f.Status(ctx)
		for _, n := range s.Open {
			o.ObserveInt64(open, n.Count, metric.WithAttributes(attribute.String("segno.tenant", n.Tenant), attribute.String("segno.prompt.state", string(n.State))))
		}
		return err
	}, open)
	return err
}

// close ends the observation of the queue.
func (t *telemetry) close() error {
	if t.depth == nil {
		return nil
	}
	return t.depth.Unregister()
}

// traceSend begins the span of a prompt that is sent. link is its context in the form of the header traceparent, or "".
func (t *telemetry) traceSend(ctx context.Context, p *Prompt) (_ context.Context, span trace.Span, link string) {
	ctx, span = t.tracer.Start(ctx, "send prompt", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("gen_ai.agent.name", p.Agent), attribute.String("gen_ai.conversation.id", p.Thread)))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return ctx, span, carrier["traceparent"]
}

// attempt is one attempt at a prompt, from the claim on.
type attempt struct {
	prompt PromptState
	number int
	began  time.Time
	due    time.Time        // when the job could begin
	change *schedule.Change // what the attempt changed; nil if another worker has the prompt
	err    error
}

// attemptKey is the key of the attempt in the context of its job.
type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// begin records the begin of an attempt.
func (f *Fleet) begin(ctx context.Context, a *attempt, p *PromptState, number int) (context.Context, trace.Span) {
	a.prompt, a.number, a.began = *p, number, time.Now()
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("gen_ai.agent.name", p.Agent), attribute.String("gen_ai.conversation.id", p.Thread),
		attribute.String("segno.tenant", p.Tenant), attribute.Int64("segno.prompt.n", p.N), attribute.Int("segno.prompt.attempt", number))}
	if p.trace != "" {
		sent := propagation.TraceContext{}.Extract(context.WithoutCancel(ctx), propagation.MapCarrier{"traceparent": p.trace})
		options = append(options, trace.WithLinks(trace.LinkFromContext(sent)))
	}
	f.telemetry.latency.Record(ctx, max(a.began.Sub(a.due), 0).Seconds(), a.attributes())
	f.log.InfoContext(ctx, "a turn begins", a.fields()...)
	return f.telemetry.tracer.Start(ctx, "run prompt", options...)
}

// end records the end of an attempt.
func (f *Fleet) end(ctx context.Context, a *attempt) {
	if a.change == nil {
		return
	}
	if a.began.IsZero() { // it was parked before it began, because its workers died
		a.began = time.Now()
	}
	took := time.Since(a.began)
	f.telemetry.attempts.Add(ctx, 1, a.attributes(), metric.WithAttributes(attribute.String("segno.prompt.state", string(a.change.State))))
	f.telemetry.duration.Record(ctx, took.Seconds(), a.attributes())
	level, text := slog.LevelInfo, "a turn ends"
	fields := append(a.fields(), "state", a.change.State, "seconds", math.Round(took.Seconds()*1000)/1000)
	switch {
	case a.change.State == schedule.Parked:
		level, text = slog.LevelError, "a prompt is parked"
	case a.err != nil:
		level, text = slog.LevelWarn, "an attempt failed"
	case a.change.State == schedule.Waiting:
		text = "a turn waits"
	}
	if a.err != nil {
		// The text of the error may contain a part of the prompt. 'segno fleet threads' shows it.
		fields = append(fields, "kind", segno.KindOf(a.err))
	}
	f.log.Log(ctx, level, text, fields...)
}

// attributes are those of the metrics of an attempt.
func (a *attempt) attributes() metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("gen_ai.agent.name", a.prompt.Agent), attribute.String("segno.tenant", a.prompt.Tenant))
}

// fields are those of the log lines of an attempt.
func (a *attempt) fields() []any {
	fields := []any{"thread", a.prompt.Thread, "n", a.prompt.N, "agent", a.prompt.Agent, "attempt", a.number}
	if a.prompt.Tenant != "" {
		fields = append(fields, "tenant", a.prompt.Tenant)
	}
	return fields
}

// endSpan ends a span. Its status has no text, which may contain a part of a prompt.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}

// queueLog is the log of the queue: what it reports about its own work is for debugging.
type queueLog struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (h queueLog) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, demoted(level))
}

// Handle implements [slog.Handler].
func (h queueLog) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoted(r.Level)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h queueLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queueLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h queueLog) WithGroup(name string) slog.Handler { return queueLog{h.Handler.WithGroup(name)} }

func demoted(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
