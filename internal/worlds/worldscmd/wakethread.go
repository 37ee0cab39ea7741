package worldscmd

import (
	"context"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/timeline"
)

type wakeThreadResult struct {
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint"`
	Restore    *moves.Result  `json:"restore,omitempty"` // set if files changed after the pause
	Client     bool           `json:"client"`            // the session continues in its ACP client
	cli.ResumeResult
}

// wakeThread continues a thread that was paused here.
func (a *app) wakeThread(ctx context.Context, called string) error {
	a.ThreadName = called
	d, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	p := &threadPause{app: a, store: d.Store, spool: d.Store.Spool(), thread: thread}
	mark, err := p.toWake(ctx)
	if err != nil {
		return err
	}
	res := wakeThreadResult{Thread: thread, Checkpoint: mark.Checkpoint}
	if err := a.restorePaused(ctx, d, mark, &res); err != nil {
		return err
	}
	if a.DryRun {
		return a.Print(res, func(w *cli.Printer) { w.Linef("wake thread %s at %s", cli.Short(thread), cli.Short(mark.Checkpoint)) })
	}
	res.Client, err = a.isOfClient(ctx, d, mark, res.Checkpoint)
	if err == nil && !res.Client {
		var r chat.Resumption
		r, err = chat.Resume(ctx, d.Timeline, d.Dir, a.StoreToName(d.Store), thread, res.Checkpoint)
		res.ResumeResult = cli.ResumeResult{Dir: r.Dir, Session: r.Session, Command: r.Command}
	}
	if err != nil {
		return err
	}
	if err := p.spool.ClearPaused(thread); err != nil {
		return err
	}
	if mark.Verb == "acp" || res.Client {
		a.Notef("the client of the session can load it again")
	}
	if res.Client {
		return a.Print(res, func(w *cli.Printer) { w.Linef("awake: thread %s", cli.Short(thread)) })
	}
	res.DirBytes = segno.PathBytes(res.Dir)
	return a.PrintAndRun(ctx, d.Close, res.ResumeResult, res, false)
}

// toWake returns the record of the pause. The error has [segno.KindRefused] if the thread is not paused.
func (p *threadPause) toWake(ctx context.Context) (spool.Paused, error) {
	const op = "wake thread"
	mark, isPaused, err := p.spool.Paused(p.thread)
	if err != nil {
		return mark, err
	}
	runner, runs, err := p.runner(ctx)
	switch {
	case err != nil:
		return mark, err
	case runs:
		return mark, segno.Errorf(segno.KindRefused, op, string(p.thread), "it is awake already").WithHint("process " + strconv.Itoa(runner.PID) + " runs its agent")
	case !isPaused:
		return mark, segno.Errorf(segno.KindRefused, op, string(p.thread), "it is not paused").WithHint("run 'segno resume' to continue it")
	case mark.Checkpoint == "":
		return mark, segno.Errorf(segno.KindRefused, op, string(p.thread), "its pause is not complete").WithHint("run 'segno generations pause " + cli.Short(p.thread) + "' again")
	}
	return mark, nil
}

// isOfClient reports whether only an ACP client can continue a thread: the session was behind a proxy, and no command
// can continue it. This is so for segno's own agent, and for an agent without a transcript that segno can read.
func (a *app) isOfClient(ctx context.Context, d *cli.Workspace, mark spool.Paused, at segno.CommitID) (bool, error) {
	thread := mark.Thread
	t, _, err := segno.FindThread(ctx, d.Store, thread)
	if err != nil {
		return false, err
	}
	if t.Agent != chat.Name {
		return mark.Verb == "acp" && d.Store.Transcripts()[t.Agent] == nil, nil
	}
	if other, err := chat.OtherAgent(ctx, d.Store, at); err != nil || other != "" {
		return false, err
	}
	return chat.Client(ctx, d.Store, thread)
}

// restorePaused restores the files of the moment at which the thread was paused. It first saves the present files.
func (a *app) restorePaused(ctx context.Context, d *cli.Workspace, mark spool.Paused, res *wakeThreadResult) error {
	head, err := d.Store.Head(ctx, mark.Thread)
	if err != nil {
		return err
	}
	if head.Head != mark.Checkpoint {
		return segno.Errorf(segno.KindConflict, "wake thread", string(mark.Thread), "it has moved on since it was paused").
			WithHint("run 'segno resume " + cli.Short(mark.Thread) + "' to continue it there")
	}
	line, err := d.Store.Load(ctx, mark.Checkpoint, segno.Window{Last: 1})
	if err != nil {
		return err
	}
	c := line.Commits[len(line.Commits)-1].Checkpoint
	if c == nil || c.Workspace == nil {
		return nil // the thread has no files
	}
	b := cli.PendingRestore{D: d, Ask: timeline.MoveRequest{Verb: segno.VerbRestore, Thread: mark.Thread, To: c.ID, Name: cli.Label(c), Scope: timeline.ScopeFiles}}
	if b.Plan, err = d.Timeline.Preview(ctx, b.Ask); err != nil || len(b.Plan.Steps) == 0 {
		return err
	}
	restore, err := moves.NewResult(ctx, d.Timeline, b.Plan, nil)
	if err != nil {
		return err
	}
	if !a.Yes || a.DryRun {
		p := a.Printer(a.Stderr)
		if a.WritePlan(p, d, b.Plan, restore); p.Err != nil {
			return p.Err
		}
	}
	res.Restore = &restore
	if a.DryRun {
		return nil
	}
	var done cli.ResumeWithResult
	if err = a.RestoreBefore(ctx, &b, &done); err == nil {
		res.Restore, res.Checkpoint, mark.Checkpoint = done.Restore, done.Restore.Head, done.Restore.Head
		err = d.Store.Spool().KeepPaused(mark) // a repeated wake continues from here
	}
	return err
}
