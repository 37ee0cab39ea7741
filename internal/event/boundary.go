package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/spool"
	"github.com/dalsegno/segno/internal/vfs"
)

// ToolHook is the command segno-hook: what 'segno hook claude' does at a tool
// boundary, without what else a segno has to load.
type ToolHook struct {
	Stdin  io.Reader
	Stdout io.Writer
	Getenv func(string) string
	Now    func() time.Time
	// Exit ends the process, should the event not end in time.
	Exit func()
	// Rest runs segno on what is not for us to do, so that nothing is lost.
	Delegate func(ctx context.Context, stdin io.Reader) error
}

// boundaryDeadline is how long an event at a tool boundary may take: less than the 5
// seconds that the agent allows.
const boundaryDeadline = 4 * time.Second

// Run handles one event. ctx ends with a signal to the process. Like every hook it fails silently, for its agent.
func (b ToolHook) Run(ctx context.Context, args []string) {
	named, ok := storeOf(args)
	store, err := spool.FindStore(b.Getenv, named)
	if err != nil {
		return // there is nowhere to say so
	}
	if ok && spool.CheckOwner(store) != nil {
		return // another user's store: segno says so at the prompt
	}
	log := Log{Store: store}
	defer func() {
		if r := recover(); r != nil {
			log.Append("panic", "", fmt.Errorf("%v\n%s", r, debug.Stack()))
		}
	}()
	if !ok {
		ctx = context.WithoutCancel(ctx) // the other process ends by itself
		if err := b.Delegate(ctx, b.Stdin); err != nil {
			log.Append("handing on", "", err)
		}
		return
	}
	watchdog := Watch(ctx, boundaryDeadline, func(why Reason) { b.expire(log, why) })
	defer watchdog.Stop()
	ctx = context.WithoutCancel(ctx) // what it records is worth the millisecond it still takes
	p, err := Read(b.Stdin)
	if errors.Is(err, io.EOF) {
		return
	}
	if err != nil {
		log.Append("unreadable event", p.Session, err)
		return
	}
	if !p.IsToolEvent() {
		watchdog.Allow(0) // the other process has its own deadline
	}
	if err := b.handle(ctx, store, p); err != nil {
		log.Append(p.Event, p.Session, err)
	}
}

func (b ToolHook) handle(ctx context.Context, store string, p Payload) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch {
	case p.IsToolEvent():
		return Recorder{Spool: spool.New(store, vfs.OS), Now: b.Now}.RecordTool(ctx, p)
	case p.Event == Probe:
		return p.AnswerProbe(b.Stdout)
	}
	if err := b.Delegate(ctx, bytes.NewReader(p.Raw)); err != nil {
		return segno.NewError(segno.KindIO, "hand event on", p.Event, err).WithHint("run 'segno enable claude' again")
	}
	return nil
}

// expire ends the process. Its last words may block as its work does.
func (b ToolHook) expire(log Log, why Reason) {
	if b.Exit == nil {
		return
	}
	RunBriefly(func() {
		log.Append("tool boundary", "", fmt.Errorf("the event was not noted when %s ended the hook", why))
	})
	b.Exit()
}

// storeOf returns the store that arguments name, as enable registers them.
func storeOf(args []string) (store string, ok bool) {
	if len(args) == 4 && args[0] == "--store" {
		store, args = args[1], args[2:]
	}
	return store, len(args) == 2 && args[0] == "hook" && args[1] == "claude"
}
