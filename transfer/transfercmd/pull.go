package transfercmd

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transfer"
	"github.com/dalsegno/segno/transfer/arrivals"
)

func (a *app) pull() *cobra.Command {
	var remote remoteFlags
	var to string
	var trust bool
	c := &cobra.Command{
		Use:   "pull THREAD --remote URL [--to DIR]",
		Short: "copy a thread from a server, and continue it here",
		Long: `Copies a thread from the store of a server to the store of this machine, with its ids, and
only the objects that are missing here.

--to makes DIR with the files of the thread's head, where the thread then works, and writes the
agent's session for that directory: run the printed command to continue. A thread that works in
a directory of this machine comes back there, without --to: its new head is restored, files and
conversation, after the plan is confirmed. Changes that are only here are saved first, and leave the
directory; 'segno op undo' goes back to them.

Files from another machine can run programs here: hooks and settings of agents, of git and of
editors. A pull that would write or delete such a file, one that usually contains credentials,
such as .env, or a link that leaves the directory, writes no file and exits with 5, unless
--trust is given. These are the files that 'segno unpack' leaves out, and, in a directory that
exists, those with setuid or setgid; --to clears these.

Such files in other checkpoints of the thread, and its states of a PostgreSQL database, are
recorded when they arrive. undo, redo, restore and fork then refuse to write them, and a session
that continues gets no script that its agent runs. --trust also trusts what earlier pulls of the
thread brought; without --remote it does nothing else.

If both sides have new commits, those of the server become a line here: nothing is
overwritten, the thread stays, and the exit code is 4. A pull that was interrupted continues
when it is run again.

` + remoteText,
		Example: "  segno pull 3f2a --remote https://segno.example.com --to ~/project\n  segno pull 3f2a --remote http://127.0.0.1:7777 -y\n  segno pull 3f2a --trust",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPull(c.Context(), args[0], remote, to, trust)
		},
	}
	remote.add(c)
	c.Flags().StringVar(&to, "to", "", "the new directory `DIR`; it must not exist, or be empty")
	c.Flags().BoolVar(&trust, "trust", false, "also write files that could run programs here, or contain credentials")
	c.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do it without asking")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "count what would be copied and stop; no plan of the files is shown")
	return c
}

// puller copies one thread to this machine.
type puller struct {
	*app
	store  *local.Store
	remote *client.Store
	thread segno.ThreadID
	dir    string // of --to, absolute, or ""
	trust  bool   // write all files
	// isContinued is set if an earlier pull into the directory was interrupted. The head of the thread here is the one whose files that
	// pull began to write; the thread on the server may have moved since.
	isContinued bool
	res         item
}

func (a *app) runPull(ctx context.Context, name string, flags remoteFlags, to string, trust bool) error {
	if trust && flags.address == "" && to == "" {
		return a.trustThread(ctx, name)
	}
	remote, err := flags.open(a)
	if err != nil {
		return err
	}
	defer remote.Close()
	t, err := idprefix.Find(idprefix.Query{What: "thread", Name: name, Hint: "name a thread of the server"},
		remote.Threads(ctx, segno.ThreadQuery{IDPrefix: name}), func(t segno.Thread) string { return string(t.ID) })
	if err != nil {
		return err
	}
	store, closeStore, err := a.openTarget(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	p := &puller{app: a, store: store, remote: remote, thread: t.ID, trust: trust}
	if to != "" {
		wd, err := a.WorkDir()
		if err != nil {
			return err
		}
		p.dir = cli.Absolute(wd, to)
		if !trust {
			if err := archive.CheckTarget("pull", p.dir); err != nil {
				return err
			}
		}
	}
	if err := p.run(ctx, flags.address); err != nil {
		return err
	}
	p.res.DirBytes, p.res.SessionDirBytes = segno.PathBytes(p.res.Dir), segno.PathBytes(p.res.SessionDir)
	if err := a.Print(p.res, p.write); err != nil {
		return err
	}
	if p.res.isPartial() && !a.DryRun || p.res.Restore != nil && len(p.res.Restore.Conflicts) > 0 {
		return cli.ErrSilent
	}
	return nil
}

// openTarget opens the store of this machine. It makes one if there is none; a dry run then compares with an empty store in a
// temporary directory, which the returned function removes.
func (a *app) openTarget(ctx context.Context) (store *local.Store, closeStore func(), err error) {
	place, err := a.OpenPlace()
	if err != nil {
		return nil, nil, err
	}
	remove := func() {}
	if a.DryRun && !place.Exists() {
		if place.Store, err = os.MkdirTemp("", "segno-pull-"); err != nil {
			return nil, nil, segno.NewError(segno.KindIO, "make temporary store", "", err)
		}
		remove = func() { _ = os.RemoveAll(place.Store) } // it is empty
	}
	if store, err = place.Open(ctx); err != nil {
		remove()
		return nil, nil, err
	}
	return store, func() { store.Close(); remove() }, nil
}

// trusted is the result of trusting a thread.
type trusted struct {
	Thread segno.ThreadID `json:"thread"`
	DryRun bool           `json:"dry_run,omitempty"`
}

// trustThread trusts what earlier pulls of a thread brought.
func (a *app) trustThread(ctx context.Context, name string) error {
	store, err := a.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	t, err := a.ThreadNamed(ctx, store, name)
	if err == nil && !a.DryRun {
		err = store.Spool().Trust(ctx, t.ID)
	}
	if err != nil {
		return err
	}
	return a.Print(trusted{t.ID, a.DryRun}, func(out *cli.Printer) {
		if a.DryRun {
			out.Linef("would trust thread %s: undo, redo, restore and fork would also write its files that could run programs", cli.Short(t.ID))
			return
		}
		out.Linef("undo, redo, restore and fork now also write the files of thread %s that could run programs", cli.Short(t.ID))
	})
}

func (p *puller) run(ctx context.Context, address string) error {
	rec, isHere, err := p.workspace(ctx)
	if err != nil {
		return err
	}
	if !isHere {
		if err := p.checkTarget(ctx); err != nil {
			return err
		}
	}
	options := transfer.Options{KeepHead: isHere || p.isContinued, DryRun: p.DryRun, Progress: p.Count("pulling", "object")}
	if !p.trust {
		recorder := arrivals.NewRecorder(p.store)
		options.Arriving = func(ctx context.Context, commits []segno.Commit) error {
			return recorder.Record(ctx, p.thread, commits)
		}
	}
	done, err := transfer.Copy(ctx, p.remote, p.store, p.thread, options)
	if err == nil && p.trust && !p.DryRun {
		err = p.store.Spool().Trust(ctx, p.thread)
	}
	if err != nil {
		return err
	}
	p.res = newItem(done, address, p.DryRun)
	switch {
	case p.DryRun:
		return nil
	case !isHere && p.dir != "" && done.Outcome != transfer.Diverged:
		isNewer := p.isContinued && done.Outcome == transfer.Kept && done.Head != done.Source
		if err := p.place(ctx, isNewer); err != nil || !isNewer {
			return err
		}
		return p.restore(ctx, rec)
	case isHere && done.Outcome == transfer.Kept && done.Head != done.Source:
		return p.restore(ctx, rec)
	}
	return nil
}

// workspace returns the directory of this machine that is at the thread. It refuses --to for such a thread, because two
// directories at one thread would record each other's files as changes. A pull into a directory that was interrupted continues there.
func (p *puller) workspace(ctx context.Context) (rec segno.WorkspaceRecord, isHere bool, err error) {
	t, ok, err := segno.FindThread(ctx, p.store, p.thread)
	if err != nil || !ok {
		return rec, false, err
	}
	rec, exists, err := p.store.ThreadWorkspace(ctx, t)
	if err != nil || !exists || rec.State.Thread != p.thread {
		return rec, false, err
	}
	isInterrupted, err := p.isInterrupted(ctx, rec)
	if err != nil {
		return rec, false, err
	}
	switch {
	case p.dir == "" && isInterrupted:
		p.dir, p.isContinued = rec.Path, true
		return rec, false, nil
	case p.dir == "":
		return rec, true, nil
	case rec.Path != p.dir:
		return rec, false, segno.Errorf(segno.KindRefused, "pull", string(p.thread), "the thread works in %s", segno.QuotePath(rec.Path)).
			WithHint("pull without --to, which brings the thread there; 'segno fork --to DIR' makes another directory")
	}
	p.isContinued = isInterrupted
	return rec, !isInterrupted, nil
}

// isInterrupted reports whether a pull into the directory of the thread ended before all files were there.
func (p *puller) isInterrupted(ctx context.Context, rec segno.WorkspaceRecord) (bool, error) {
	if rec.State.Snapshot != nil {
		return false, nil
	}
	head, err := p.store.Head(ctx, p.thread)
	if err != nil {
		return false, err
	}
	at, err := p.newestCheckpoint(ctx, head.Head)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil // the thread has no files
	}
	return err == nil && at.Workspace != nil, err
}

// restore moves the directory of the thread to the head of the server. The thread moves with it.
func (p *puller) restore(ctx context.Context, rec segno.WorkspaceRecord) error {
	at, err := p.newestCheckpoint(ctx, p.res.Source)
	if err != nil {
		return err
	}
	tl, err := p.store.Timeline(rec, nil)
	if err != nil {
		return err
	}
	d := &cli.Workspace{Store: p.store, Rec: rec, Timeline: tl, Dir: rec.Path}
	b := &cli.PendingRestore{Verb: "pull", D: d, Ask: timeline.MoveRequest{Verb: segno.VerbRestore, Thread: p.thread, To: at.ID, Name: cli.Label(at), Scope: timeline.ScopeBoth, Follow: true}}
	if at.Workspace == nil {
		b.Ask.Scope = timeline.ScopeChat
	}
	b.Plan, err = tl.Preview(ctx, b.Ask)
	if untrusted := (*timeline.UntrustedError)(nil); errors.As(err, &untrusted) {
		return p.refuse(untrusted.Paths)
	}
	if err != nil {
		return err
	}
	if err := p.checkTrust(ctx, slices.Concat(b.Plan.Steps, b.Plan.Forced), b.Plan.Before.Tree, at.Tree()); err != nil {
		return err
	}
	if !p.Yes {
		plan, err := moves.NewResult(ctx, tl, b.Plan, nil)
		if err != nil {
			return err
		}
		out := p.Printer(p.Stderr)
		if p.WritePlan(out, d, b.Plan, plan); out.Err != nil {
			return out.Err
		}
	}
	var restored cli.ResumeWithResult
	if err := p.RestoreBefore(ctx, b, &restored); err != nil {
		return err
	}
	r := restored.Restore
	p.res.Restore, p.res.Outcome, p.res.Head, p.res.Dir = r, transfer.Forwarded, r.Head, rec.Path
	p.res.Session, p.res.SessionDir, p.res.Command = r.Session, r.Dir, r.Command
	return nil
}

// newestCheckpoint returns the newest checkpoint at or below a commit.
func (p *puller) newestCheckpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	for n, err := range segno.Ancestors(ctx, p.store, at, segno.Window{Last: 4}) {
		if err != nil || n.Checkpoint != nil {
			return n.Checkpoint, err
		}
	}
	return nil, segno.Errorf(segno.KindNotFound, "pull", string(at), "the thread has no checkpoint")
}

func (p *puller) write(out *cli.Printer) {
	res := &p.res
	verb := "pulled"
	if res.DryRun {
		verb = "pull"
	}
	out.Linef("%s %s from %s: %s", verb, cli.Short(res.Thread), cli.Clean(res.Remote), res.amount())
	if res.DryRun {
		return
	}
	switch {
	case res.Outcome == transfer.Behind:
		out.Linef("the thread here is ahead, at %s; send it with 'segno push'", cli.Short(res.Head))
	case res.Outcome == transfer.Diverged:
		out.Linef("both sides have new commits: those of the server are a line here, up to %s, and the thread stays at %s", cli.Short(res.Source), cli.Short(res.Head))
		out.Linef("to go there, run 'segno restore %s --thread %s'", cli.Short(res.Source), cli.Short(res.Thread))
	case res.Outcome == transfer.Kept:
		out.Linef("the thread stays at %s: %s", cli.Short(res.Head), cli.Clean(res.Why))
	case res.Dir != "":
		out.Linef("the files are in %s", cli.QuotePath(p.RelativePath(res.Dir)))
	}
	if res.Chat != "" {
		out.Linef("the conversation does not continue: %s", cli.Clean(res.Chat))
	}
	if len(res.Command) > 0 {
		out.Linef("to continue:\n  %s", p.RunIn(res.SessionDir, res.Command))
	}
}
