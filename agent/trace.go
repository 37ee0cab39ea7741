package agent

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Spans have the attributes of OpenTelemetry's semantic conventions for generative AI
// (gen_ai.*). They contain no prompts, answers or arguments.

func (r *run) traceRun(ctx context.Context) (context.Context, trace.Span) {
	name := cmp.Or(r.sub, r.Name)
	return r.Tracer.Start(ctx, "invoke_agent "+name, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", name),
		attribute.String("gen_ai.conversation.id", r.in.Thread)))
}

func (r *run) traceModel(ctx context.Context) (context.Context, trace.Span) {
	provider, model, _ := strings.Cut(r.Model.Name(), "/")
	return r.Tracer.Start(ctx, "chat "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", model),
		attribute.String("gen_ai.conversation.id", string(r.thread))))
}

func traceReply(span trace.Span, reply *Reply) {
	span.SetAttributes(
		attribute.String("gen_ai.response.model", reply.Message.Model),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(reply.Stop)}),
		attribute.Int("gen_ai.usage.input_tokens", reply.Usage.Input),
		attribute.Int("gen_ai.usage.output_tokens", reply.Usage.Output))
}

func (r *run) traceTool(ctx context.Context, j job) (context.Context, trace.Span) {
	return r.Tracer.Start(ctx, "execute_tool "+j.Name, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", j.Name),
		attribute.String("gen_ai.tool.call.id", j.ID),
		attribute.String("gen_ai.tool.type", "function")))
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}
