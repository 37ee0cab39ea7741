package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// answerJob is a job of the queue: it answers the question of a thread that waits for a prompt to another one. It may be repeated,
// because the first decision counts.
type answerJob struct {
	Thread   string `json:"thread"`
	Question string `json:"question"`
	Prompt   int64  `json:"prompt,omitempty"` // the number of the prompt that has ended
	Error    string `json:"error,omitempty"`  // why the prompt was not sent
	Sealed   []byte `json:"sealed,omitempty"` // the Error in a sealed fleet, because it may contain a key
}

// Kind implements [river.JobArgs].
func (answerJob) Kind() string { return "segno_answer" }

func (f *Fleet) answer(ctx context.Context, tx pgx.Tx, job answerJob, tenant string, priority int) error {
	if f.sealer != nil && job.Error != "" {
		job.Sealed, job.Error = f.sealer.Seal([]byte(job.Error), "answer", job.Thread, job.Question), ""
	}
	_, err := f.queue.InsertTx(ctx, tx, job, &river.InsertOpts{Queue: QueueOf(tenant), Priority: priority, MaxAttempts: maxRiverAttempts})
	return err
}

// answerWorker works the jobs that answer.
type answerWorker struct {
	river.WorkerDefaults[answerJob]
	worker *Worker
}

// Work implements [river.Worker].
func (a *answerWorker) Work(ctx context.Context, job *river.Job[answerJob]) error {
	defer a.worker.track(job.ID)()
	f := a.worker.fleet
	d, err := f.decisionOf(ctx, &job.Args)
	if err == nil {
		err = f.Decide(ctx, job.Args.Thread, d)
	}
	switch segno.KindOf(err) {
	case segno.KindNone:
		return nil
	case segno.KindConflict, segno.KindNotFound, segno.KindRefused, segno.KindInvalid, segno.KindCorrupt:
		// The question was answered, or is not on the thread's line any more.
		f.log.InfoContext(ctx, "the answer of a thread was not used", "thread", job.Args.Thread, "question", job.Args.Question, "error", err)
		return nil
	}
	f.log.WarnContext(ctx, "the job is repeated", "op", "answer", "thread", job.Args.Thread, "error", err)
	return river.JobSnooze(time.Second)
}

// decisionOf returns the decision that a prompt that has ended makes.
func (f *Fleet) decisionOf(ctx context.Context, job *answerJob) (d segno.Decision, err error) {
	d = segno.Decision{Interrupt: job.Question, Kind: segno.Reject, Text: job.Error}
	if job.Sealed != nil {
		text, err := f.sealer.Open(job.Sealed, "answer", job.Thread, job.Question)
		if err != nil {
			return d, segno.NewError(segno.KindCorrupt, "answer thread", job.Thread, err)
		}
		d.Text = string(text)
	}
	if job.Prompt == 0 {
		return d, nil
	}
	prompts, err := f.prompts(ctx, PromptQuery{Before: job.Prompt + 1, Limit: 1})
	if err != nil {
		return d, err
	}
	if len(prompts) == 0 || prompts[0].N != job.Prompt {
		return d, segno.NewError(segno.KindNotFound, "answer thread", fmt.Sprint(job.Prompt), nil)
	}
	p := prompts[0]
	d.Actor = p.Agent
	if p.State == StateDone {
		d.Kind, d.Text = segno.Respond, p.Outcome
	} else {
		d.Text = "the prompt was cancelled"
	}
	return d, nil
}

// agentFor returns an agent that changes threads and runs none.
func (f *Fleet) agentFor() *agent.Agent { return agent.New(agent.Config{Store: f.store}) }
