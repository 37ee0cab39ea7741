// Package proxy is the durable session tap: it stands between a client and an
// agent that speak the Agent Client Protocol, passes on what they say byte for
// byte, records each turn as a checkpoint, and keeps the conversation when the
// session below it is lost.
//
// # What runs
//
// One goroutine reads the client and one reads the agent's process. What belongs
// to a session goes through the session's lane: a mailbox and one goroutine, so
// that a session's messages keep their order in both directions together and a
// slow step of one session holds up no other, until 8 MiB of the one wait. A step that
// waits for nothing is made by the goroutine that read the message, if the lane has nothing
// else to do: waking the lane would take longer than the step. What
// belongs to none is passed on where it is read. Each direction has one writer, which
// lanes share.
//
// # Two ids
//
// The first session id a thread got is the one its client keeps. The agent's may
// change behind it: then the id is spliced in each message, both ways. The book
// remembers which client id stands for which thread.
//
// # A turn
//
// A prompt is recorded, then written to the agent; its answer is committed with
// the files and the transcript, then passed on. A prompt that was written counts
// as seen: what follows a failure is decided by internal/failure, carried out in
// recover.go, and tells the agent what it had done already.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
)

// Config is one run of the proxy.
type Config struct {
	Command []string // the agent's
	Env     []string // its environment
	Dir     string   // where it is started

	Stdin          io.Reader // from the client
	Stdout, Stderr io.Writer // to it, and what both sides log

	Place      local.Place
	BestEffort bool // go on unrecorded if a turn cannot be recorded

	cancelWait time.Duration // 0 is the constant's
	strayWait  time.Duration // 0 is answerWait
}

// proxy is one run.
type proxy struct {
	Config
	ctx    context.Context
	client *acp.Writer
	agent  *agent
	store  *local.Store
	book   book
	owner  string // of leases
	work   sync.WaitGroup

	mu       sync.Mutex
	ready    bool
	closing  bool
	notices  bool // the client takes them
	lanes    map[segno.SessionID]*session
	upstream map[segno.SessionID]*session
	left     []*session         // lanes of ids that turned out to be no session's
	opening  int                // requests under way that make a session
	held     []acp.Message      // updates of sessions not announced yet
	asked    map[string]*asking // the agent's requests to the client
}

// Run passes messages until the client closes its side, then ends the agent. The
// error is one to tell the user: the agent's command does not exist, the store
// cannot be opened.
func Run(ctx context.Context, c Config) error {
	if c.Place.StoreWait == 0 {
		c.Place.StoreWait = storeWait
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p := &proxy{Config: c, ctx: inner, client: acp.NewWriter(c.Stdout),
		lanes: map[segno.SessionID]*session{}, upstream: map[segno.SessionID]*session{}, asked: map[string]*asking{}}
	p.agent = newAgent(p)
	p.book = book{dir: c.Place.Store, fs: c.Place.FS}
	p.owner = fmt.Sprintf("acp %d %s", os.Getpid(), cmp.Or(proc.Start(os.Getpid()), "-"))
	if err := p.start(); err != nil {
		if c.BestEffort && p.store == nil {
			p.logf("nothing is recorded: %v", err)
			return p.relay(ctx)
		}
		p.refuse(ctx, err)
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		p.fromClient()
	}()
	select {
	case <-left:
	case <-ctx.Done(): // told to end; the client may live on
	}
	if p.shutDown() {
		return p.store.Close()
	}
	return nil // something hangs, and ends with the process
}

// start opens the store and starts the agent, so that it warms up while the client
// says who it is.
func (p *proxy) start() (err error) {
	if p.store, err = p.Place.Open(p.ctx); err != nil {
		return err
	}
	if _, err = p.agent.start(); err != nil {
		return errors.Join(err, p.store.Close())
	}
	return nil
}

// refuse gives the client a moment to ask for something, so that it can be told why
// there is nothing to talk to.
func (p *proxy) refuse(ctx context.Context, why error) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		p.refuseFirst(why)
	}()
	select {
	case <-told:
	case <-ctx.Done():
	case <-time.After(refuseWait):
	}
}

// refuseFirst answers the client's first request with the reason why there is
// nothing to talk to.
func (p *proxy) refuseFirst(why error) {
	in := acp.NewReader(p.Stdin)
	for {
		line, err := in.Next()
		if err != nil && !errors.Is(err, acp.ErrTooLong) {
			return
		}
		if m, err := acp.Parse(line); err == nil && m.IsRequest() {
			_ = p.client.Write(acp.Failure(m.IDText(), refusal(why))) // it may be gone
			return
		}
	}
}

// fromClient reads the client until it closes its side.
func (p *proxy) fromClient() {
	in := acp.NewReader(p.Stdin)
	for {
		line, err := in.Next()
		if errors.Is(err, acp.ErrTooLong) {
			p.logf("a message of the client is longer than 64 MiB and was dropped")
			id, _ := acp.IDOfPrefix(line)
			p.toClient(acp.Failure(id, &acp.Error{Code: acp.CodeInvalidRequest, Message: "Invalid request: " + err.Error()}))
			continue
		}
		if err != nil {
			return
		}
		m, err := acp.Parse(line)
		if err != nil {
			var bad *acp.Error
			if errors.As(err, &bad) {
				p.notParsed(line, bad)
			}
			continue
		}
		p.fromClientOne(m)
	}
}

// notParsed answers a line of the client's that is not a message, and serves the messages in
// it: what is no JSON may lack an end of line, and the client waits for their answers.
func (p *proxy) notParsed(line []byte, bad *acp.Error) {
	found, pure := []acp.Message(nil), 0
	if bad.Code == acp.CodeParse {
		found, pure = acp.ExtractMessages(line)
	}
	if len(found) == 0 {
		id, _ := acp.IDOfPrefix(line)
		p.toClient(acp.Failure(id, bad))
		return
	}
	if pure < len(found) {
		p.toClient(acp.Failure("", bad))
	}
	for _, m := range found {
		p.fromClientOne(m)
	}
}

// toClient writes one line. A client that does not read any more is noticed by
// its closing the other side.
func (p *proxy) toClient(line []byte) { _ = p.client.Write(line) }

// flushClient writes the updates that were kept to be written together.
func (p *proxy) flushClient() { _ = p.client.Flush() }

func (p *proxy) logf(format string, args ...any) {
	fmt.Fprintf(p.Stderr, "segno acp: "+format+"\n", args...)
}

// brief is a session id as the log has it: ids come from agents, and may be anything.
func brief(id segno.SessionID) string { return excerpt([]byte(id)) }

// refusal is the error a client is answered with when segno itself cannot.
func refusal(err error) *acp.Error {
	data := map[string]any{"kind": segno.KindOf(err)}
	if hint := segno.HintOf(err); hint != "" {
		data["hint"] = hint
	}
	code := acp.CodeInternal
	switch segno.KindOf(err) {
	case segno.KindNotFound:
		code = acp.CodeNotFound
	case segno.KindInvalid:
		code = acp.CodeInvalidParams
	case segno.KindCancelled:
		code = acp.CodeCancelled
	}
	var theirs *acp.Error
	if errors.As(err, &theirs) && (theirs.Code == acp.CodeAuthRequired || theirs.Code == acp.CodeMethodNotFound) {
		code = theirs.Code // clients act on these
	}
	return &acp.Error{Code: code, Message: "segno: " + err.Error(), Data: acp.Encode(map[string]any{"segno": data})}
}

// patience is how long the proxy waits for what must come, by what it is.
const (
	answerWait = 2 * time.Minute  // for an agent to open a session
	refuseWait = 3 * time.Second  // for a client to ask, where there is no agent
	cancelWait = 30 * time.Second // for a turn to end once it is cancelled
	storeWait  = 2 * time.Second  // for the store's writer, while a client waits for us
	settleWait = 500 * time.Millisecond
)
