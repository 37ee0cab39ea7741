package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Retry says how often a model is asked again that failed in passing. Nobody else
// does: model adapters ask once.
type Retry struct {
	Attempts int           // how often it is asked at most in a step; 0 is 5
	Wait     time.Duration // before the second time, doubling, with jitter; 0 is a second
	MaxWait  time.Duration // the longest wait; 0 is a minute
}

func (p Retry) withDefaults() Retry {
	if p.Attempts == 0 {
		p.Attempts = 5
	}
	if p.Wait == 0 {
		p.Wait = time.Second
	}
	if p.MaxWait == 0 {
		p.MaxWait = time.Minute
	}
	return p
}

// wait is how long to wait after the n-th failure. A server that says how long is
// believed, up to the most.
func (p Retry) wait(n int, asked time.Duration) time.Duration {
	d := p.Wait << (n - 1)
	if d > p.MaxWait || d <= 0 {
		d = p.MaxWait
	}
	d = d/2 + rand.N(d/2+1)
	return min(max(d, asked), p.MaxWait)
}

// generate asks the model, and again if it failed in passing. Nothing of a failed
// answer is kept.
func (r *run) generate(ctx context.Context, q Request) (*Reply, error) {
	p := r.Retry.withDefaults()
	for n := 1; ; n++ {
		reply, err := r.once(ctx, q)
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, segno.NewError(segno.KindCancelled, "ask model", r.Model.Name(), ctx.Err())
		}
		var passing *ModelError
		if !errors.As(err, &passing) || !passing.Retry || n >= p.Attempts {
			return nil, failedToAnswer(r.Model.Name(), err)
		}
		wait := p.wait(n, passing.After)
		r.tell(Event{Kind: EventRetry, Text: fmt.Sprintf("%v; try %d of %d in %s", err, n+1, p.Attempts, wait.Round(time.Second/10)), Count: n})
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// failedToAnswer is a model's failure as somebody who can do something about it
// should hear it.
func failedToAnswer(model string, err error) error {
	kind, hint := segno.KindOf(err), segno.HintOf(err)
	var failed *ModelError
	if errors.As(err, &failed) && kind == segno.KindInternal {
		switch {
		case failed.Retry:
			kind = segno.KindBusy
		case failed.Status == 401 || failed.Status == 402 || failed.Status == 403:
			kind = segno.KindRefused
		case failed.Status >= 400 && failed.Status < 500:
			kind = segno.KindInvalid
		default:
			kind = segno.KindIO
		}
	}
	switch {
	case hint != "":
	case failed != nil && failed.Status == 402:
		hint = "add credit to the account of the key, or use another key or model; what was done so far is saved"
	case kind == segno.KindInvalid && tooLong(err.Error()):
		hint = "set Summarize.Above below what the model takes, or undo the turn; what was done so far is saved"
	case kind == segno.KindInvalid:
		hint = "check the model's name and address, and what it was sent; what was done so far is saved"
	default:
		hint = "what was done so far is saved: go on with the turn when the model answers again"
	}
	return segno.NewError(kind, "ask model", model, err).WithHint(hint)
}

// tooLong reports whether a server says that a request does not fit the model.
func tooLong(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "context length") || strings.Contains(text, "context_length") ||
		strings.Contains(text, "context window") || strings.Contains(text, "too long") || strings.Contains(text, "context size")
}

// once asks the model once and tells what it says as it says it.
func (r *run) once(ctx context.Context, q Request) (_ *Reply, err error) {
	ctx, span := r.traceModel(ctx)
	defer func() { endSpan(span, err) }()
	for chunk, err := range r.Model.Generate(ctx, q) {
		switch {
		case err != nil:
			return nil, err
		case chunk.Reply != nil:
			traceReply(span, chunk.Reply)
			return chunk.Reply, nil
		case chunk.Text != "":
			r.tell(Event{Kind: EventText, Text: chunk.Text})
		case chunk.Thinking != "":
			r.tell(Event{Kind: EventThinking, Text: chunk.Thinking})
		}
	}
	return nil, &ModelError{Retry: true, Err: errors.New("it ended without an answer")}
}
