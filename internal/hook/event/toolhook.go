package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/vfs"
)

// ToolHook is the command segno-hook. It handles the events before and after a tool call as
// 'segno hook AGENT' does, without the start-up time of segno.
type ToolHook struct {
	Stdin  io.Reader
	Stdout io.Writer
	Getenv func(string) string
	Now    func() time.Time
	// Exit ends the process if the event is not recorded in time. It may be nil.
	Exit func()
	// Delegate runs segno, which handles every other event.
	Delegate func(ctx context.Context, stdin io.Reader) error
}

// toolDeadline is how long an event at a tool call may take: less than the 5
// seconds that the agent allows.
const toolDeadline = 4 * time.Second

// Run handles one event. ctx ends with a signal to the process. Like every hook, it returns no
// error, because an error would disturb the agent. It writes errors to the [Log].
func (h ToolHook) Run(ctx context.Context, args []string) {
	noSteps := len(args) > 0 && args[len(args)-1] == NoStepsArg
	if noSteps {
		args = args[:len(args)-1]
	}
	named, agent, ok := parseArgs(args)
	store, err := spool.FindStore(h.Getenv, named)
	if err != nil {
		return // without a store there is no log
	}
	if ok && spool.CheckOwner(store) != nil {
		return // another user's store: segno reports it at the prompt
	}
	log := Log{Store: store}
	defer log.AppendPanic()
	// The delegated process handles signals and deadlines itself. Here a signal only starts
	// the watchdog, because recording the event takes only a millisecond.
	work := context.WithoutCancel(ctx)
	if !ok {
		if err := h.Delegate(work, h.Stdin); err != nil {
			log.Append("delegate to segno", "", err)
		}
		return
	}
	watchdog := proc.Watch(ctx, toolDeadline, func(why proc.Reason) { h.expire(log, why) })
	defer watchdog.Stop()
	p, err := Read(h.Stdin, agent.Hooks)
	if errors.Is(err, io.EOF) {
		return
	}
	if err != nil {
		log.Append("unreadable event", p.Session, err)
		return
	}
	if !p.IsToolEvent() {
		watchdog.Allow(0)
	}
	if err := h.handle(work, store, agent.Name, p, noSteps); err != nil {
		log.Append(p.Event, p.Session, err)
	}
}

func (h ToolHook) handle(ctx context.Context, store, agent string, p Payload, noSteps bool) error {
	if err := p.Check(); err != nil {
		return err
	}
	if p.Event == Probe {
		return p.AnswerProbe(h.Stdout)
	}
	if p.IsToolEvent() && !spool.IsSealed(store) { // segno records it in a sealed store: reading the key needs much more code
		r := Recorder{Spool: spool.NewSealed(store, vfs.OS, plainOnly(store)), Now: h.Now, Store: store, NoSteps: noSteps}
		if late, err := r.IsAfterEnd(ctx, p); err != nil || !late {
			return errors.Join(err, r.RecordTool(ctx, p))
		}
	}
	if err := h.Delegate(ctx, bytes.NewReader(p.Raw)); err != nil {
		return segno.NewError(segno.KindIO, "forward event", p.Event, err).WithHint("run 'segno enable " + agent + "' again")
	}
	return nil
}

// plainOnly returns the function for [spool.NewSealed] in a process that cannot seal.
func plainOnly(store string) func() (spool.Sealer, error) {
	return func() (spool.Sealer, error) {
		if spool.IsSealed(store) {
			return nil, segno.Errorf(segno.KindBusy, "record tool call", store, "the store was sealed meanwhile")
		}
		return nil, nil
	}
}

// expire logs why the process ends, and ends it. Writing to the log may block, too.
func (h ToolHook) expire(log Log, why proc.Reason) {
	if h.Exit == nil {
		return
	}
	RunBriefly(func() {
		log.Append("tool boundary", "", fmt.Errorf("the event was not recorded when %s ended the hook", why))
	})
	h.Exit()
}

// parseArgs returns the store and the agent that arguments name. ok is false if enable does not register such
// arguments.
func parseArgs(args []string) (store string, agent profile.Profile, ok bool) {
	if len(args) == 4 && args[0] == "--store" {
		store, args = args[1], args[2:]
	}
	if len(args) != 2 || args[0] != "hook" {
		return store, agent, false
	}
	agent, _ = agents.Of(args[1])
	return store, agent, agent.Hooks != nil
}
