package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// stepLimitError is the error of a run that took all its steps.
type stepLimitError int

func (n stepLimitError) Error() string { return fmt.Sprintf("the run took %d steps", int(n)) }

// step asks the model once, and reports whether the turn ended. On return the answer is
// durable, unless it has calls: [run.finishCalls] runs them and commits.
func (r *run) step(ctx context.Context) (done bool, err error) {
	if r.steps++; r.steps > r.MaxSteps {
		return false, segno.NewError(segno.KindRefused, "run agent", string(r.thread), stepLimitError(r.MaxSteps)).
			WithHint("run the thread again without a prompt to continue, or raise MaxSteps")
	}
	if err := r.summarize(ctx); err != nil {
		return false, err
	}
	r.emit(Event{Kind: eventStepStart})
	if r.parent != nil {
		r.parent.emit(Event{Kind: eventSubStep, Path: r.sub, Count: r.steps})
	}
	reply, err := r.generate(ctx, r.request())
	if err != nil {
		return false, err
	}
	m := assistantMessage(reply, r.Model.Name())
	calls := r.uniqueCalls(m)
	r.draftMessage(*m)
	r.draftBody(segno.Entry{Kind: segno.EntryUsage, Name: r.Model.Name()}, reply.Usage)
	r.state.Step++
	if len(calls) > 0 {
		return false, nil
	}
	if r.in.Output != nil {
		return false, r.remind(ctx)
	}
	return true, r.endTurn(ctx)
}

func (r *run) endTurn(ctx context.Context) error {
	r.open = false
	// The done event is built from these notes: the structured answer and the text beside it.
	if answer := r.structuredAnswer(); answer != nil {
		if text := r.lastText(); text != "" {
			r.draftNote(noteText, text)
		}
		r.draftNote(noteAnswer, answer)
	}
	return r.commit(ctx, r.turnEnd(false))
}

// assistantMessage returns a reply's message with the agent's values in the fields that a
// model must not set. It drops results, which only tools have.
func assistantMessage(reply *Reply, model string) *Message {
	m := reply.Message // a copy: the model may still use its message
	m.ID, m.Role, m.Model, m.Stop = "", Assistant, cmp.Or(m.Model, model), ""
	if reply.Stop == StopLength || reply.Stop == StopRefusal {
		m.Stop = reply.Stop
	}
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.Result != nil })
	return &m
}

// request returns the next request to the model.
func (r *run) request() Request {
	q := Request{System: r.System, Messages: slices.Clone(r.shown), Tools: r.specs, MaxTokens: r.MaxTokens, Thread: string(r.thread)}
	if r.in.Output != nil {
		q.Tools = append(slices.Clip(q.Tools), answerTool(r.in.Output))
	}
	return q
}

// Retry bounds how often an operation is repeated after transient failures. Model adapters do
// not retry. If a model's server asks to wait longer than MaxWait, the run ends at once with
// [segno.KindBusy]: the [ModelError] in the error has the time that it asks for.
type Retry struct {
	Attempts int           // including the first; 0 is 5
	Wait     time.Duration // before the second attempt, doubling, with jitter; 0 is a second
	MaxWait  time.Duration // the longest wait before an attempt; 0 is a minute
}

func (p Retry) withDefaults(d Retry) Retry {
	return Retry{Attempts: cmp.Or(p.Attempts, d.Attempts), Wait: cmp.Or(p.Wait, d.Wait), MaxWait: cmp.Or(p.MaxWait, d.MaxWait)}
}

// backoff returns the wait after the n-th failure: at least the time that the server asks
// for, which is at most MaxWait.
func (p Retry) backoff(n int, asked time.Duration) time.Duration {
	d := p.Wait << (n - 1)
	if d > p.MaxWait || d <= 0 {
		d = p.MaxWait
	}
	d = d/2 + rand.N(d/2+1)
	return max(d, asked)
}

// generate asks the model and retries after transient failures. It discards a failed
// answer.
func (r *run) generate(ctx context.Context, q Request) (*Reply, error) {
	for n := 1; ; n++ {
		reply, err := r.generateOnce(ctx, q)
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, segno.NewError(segno.KindCancelled, "ask model", r.Model.Name(), ctx.Err())
		}
		var transient *ModelError
		if !errors.As(err, &transient) || !transient.Retry || n >= r.Retry.Attempts {
			return nil, modelFailure(r.Model.Name(), err)
		}
		if asked := transient.After; asked > r.Retry.MaxWait {
			return nil, segno.Errorf(segno.KindBusy, "ask model", r.Model.Name(), "%w; the server asks to wait %s", err, asked.Round(time.Second)).
				WithHint("continue the turn after that time, or raise Retry.MaxWait; the turn so far is saved")
		}
		wait := r.Retry.backoff(n, transient.After)
		r.emit(Event{Kind: EventRetry, Text: fmt.Sprintf("%v; try %d of %d in %s", err, n+1, r.Retry.Attempts, wait.Round(time.Second/10)), Count: n})
		_ = sleep(ctx, wait) // the next attempt reports the end of ctx
	}
}

// generateOnce asks the model once and emits the answer as it arrives.
func (r *run) generateOnce(ctx context.Context, q Request) (_ *Reply, err error) {
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
			r.emit(Event{Kind: EventText, Text: chunk.Text})
		case chunk.Thinking != "":
			r.emit(Event{Kind: EventThinking, Text: chunk.Thinking})
		}
	}
	return nil, &ModelError{Retry: true, Err: errors.New("the model ended without an answer")}
}

// modelFailure returns a model's failure with a kind and a hint for the user.
func modelFailure(model string, err error) error {
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
		hint = "add credit to the account of the key, or use another key or model; the turn so far is saved"
	case kind == segno.KindInvalid && isTooLong(err.Error()):
		hint = "set Summarize.Above below the model's context length, or undo the turn; the turn so far is saved"
	case kind == segno.KindInvalid:
		hint = "check the model's name, its address and the request; the turn so far is saved"
	default:
		hint = "continue the turn when the model answers again; the turn so far is saved"
	}
	return segno.NewError(kind, "ask model", model, err).WithHint(hint)
}

// isTooLong reports whether a server's error says that a request exceeds the model's context.
func isTooLong(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"context length", "context_length", "context window", "too long", "context size"},
		func(part string) bool { return strings.Contains(text, part) })
}

// Summarize configures when a summary replaces old messages in the requests to the model. The
// messages stay in the log.
type Summarize struct {
	Above int   // estimated tokens of a request; 0 is 170,000, negative is never
	Keep  int   // the number of newest messages shown unchanged; 0 or less is 6
	Model Model // nil is the agent's
}

// summary replaces the first messages of a conversation in requests to the model.
type summary struct {
	Covers int    `json:"covers"` // number of messages
	Text   string `json:"text"`
}

const summarizePrompt = "Summarize this conversation for yourself: the task, what was decided, what was done and with what result, facts to remember, " +
	"what is still to do. Answer with the summary alone.\n\nsummarize"

const (
	summaryKey     = ".summary" // of the newest summary, in the values
	summaryUsageID = "summary"  // of a summary's usage entry
)

// summary returns the line's newest summary.
func (r *run) summary() summary {
	var s summary
	if _, err := r.values.Get(summaryKey, &s); err != nil {
		return summary{}
	}
	return s
}

// summarize replaces old messages by a summary if the next request would be too long. It never
// separates a call from its result.
func (r *run) summarize(ctx context.Context) error {
	above, keep := cmp.Or(r.Summarize.Above, 170_000), r.Summarize.Keep
	if keep <= 0 {
		keep = 6
	}
	if above < 0 || r.noSummary || r.showSize/4 <= above { // about four bytes are a token
		return nil
	}
	covers := r.cutPoint(len(r.msgs) - keep)
	if covers <= r.summary().Covers {
		return nil
	}
	text, err := r.generateSummary(ctx, covers)
	if err != nil {
		return fmt.Errorf("summarize: %w", err)
	}
	if text == "" {
		r.noSummary = true // the conversation stays, and the model is not asked in every step
		return r.commit(ctx, nil)
	}
	s := summary{Covers: covers, Text: text}
	if err := r.values.set(summaryKey, s); err != nil {
		return err
	}
	r.draftNote(noteSummary, s)
	r.showAll(r.System, s)
	return r.commit(ctx, nil)
}

// generateSummary asks for a summary of the first messages. It returns "" if the model refuses.
func (r *run) generateSummary(ctx context.Context, covers int) (string, error) {
	a := *r.Agent
	if r.Summarize.Model != nil {
		a.Model = r.Summarize.Model
	}
	old := a.newRun(Input{Thread: string(r.thread)})
	old.state, old.turn, old.msgs = r.state, r.turn, r.msgs[:covers]
	old.showAll(r.System, r.summary())
	q := Request{System: r.System, Messages: append(old.shown, Text(summarizePrompt)), Tools: r.specs, NoCalls: true, Thread: string(r.thread)}
	reply, err := old.generate(ctx, q)
	if err != nil {
		return "", err
	}
	r.draftBody(segno.Entry{Kind: segno.EntryUsage, ID: summaryUsageID, Name: a.Model.Name()}, reply.Usage)
	text := strings.TrimSpace(reply.Message.Text())
	switch {
	case reply.Stop == StopRefusal:
		text = ""
	case reply.Stop == StopLength && text != "":
		text += " … (truncated)"
	}
	return text, nil
}

// structuredAnswer returns the valid structured answer in the model's newest message, or nil.
func (r *run) structuredAnswer() json.RawMessage {
	m := r.lastReply()
	if r.in.Output == nil || m == nil {
		return nil
	}
	for _, c := range m.Calls() {
		if c.Name == answerName && parseSchema(r.in.Output).invalid(c.Args) == "" {
			return c.Args
		}
	}
	return nil
}

// remind asks a model that ended its turn without the structured answer to give it, a few times.
func (r *run) remind(ctx context.Context) error {
	const limit = 3
	if r.reminders++; r.reminders > limit {
		r.open = false
		if err := r.commit(ctx, r.turnEnd(true)); err != nil {
			return err
		}
		return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "the model gave no structured answer").
			WithHint("simplify the schema, or use another model")
	}
	r.draftMessage(Text("Give your answer with the tool " + answerName + "."))
	return r.commit(ctx, r.stepEnd())
}
