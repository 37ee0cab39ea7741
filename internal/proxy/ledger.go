package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/failure"
	"github.com/dalsegno/segno/internal/local"
)

// leaseFor is how long a thread stays ours without a word from us. It is renewed
// three times in that time.
const leaseFor = time.Minute

// site is the workspace of the session's directory, as it is found now.
func (s *session) site(ctx context.Context) (segno.Site, error) {
	rec, err := s.proxy.store.Register(ctx, s.page.Dir)
	if err != nil {
		return segno.Site{}, err
	}
	site, err := s.proxy.store.Site(rec, nil)
	site.Lease = s.lease
	return site, err
}

// source says where the agent keeps the session.
func (s *session) source() segno.Source {
	return segno.Source{Session: s.up, Dir: s.page.Dir}
}

// heldError is the error of a thread that another client works on.
type heldError struct{ owner string }

func (e *heldError) Error() string {
	if fields := strings.Fields(e.owner); len(fields) > 1 && fields[0] == "acp" {
		return "another client works on this thread (process " + fields[1] + ")"
	}
	return "another client works on this thread (" + e.owner + ")"
}

func isHeld(err error) bool {
	var held *heldError
	return errors.As(err, &held)
}

// own makes the session's thread, if it has none yet, and takes the lease on it.
func (s *session) own(ctx context.Context, t *turn) error {
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	if s.thread == "" {
		r := segno.Recorder{Site: site}
		s.thread, err = r.Open(ctx, segno.Opening{Agent: s.page.Agent, Source: segno.Source{Session: s.page.Upstream, Dir: s.page.Dir}, Title: t.text, Name: s.page.Name})
		if err != nil {
			return err
		}
		s.page.Thread = s.thread
		if s.page.Title == "" {
			s.page.Title = segno.Headline(t.text)
		}
		if err := s.proxy.book.write(s.page); err != nil {
			return err
		}
		h, err := s.footing(ctx)
		if err != nil {
			return err
		}
		s.has = h.turnID() // a session older than segno has turns
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	t.keep(s.proxy, s.lease)
	return nil
}

// acquire takes the lease. One whose owner is gone is released first.
func (s *session) acquire(ctx context.Context) error {
	want := segno.Lease{Thread: s.thread, Owner: s.leaseOwner(), Expires: s.proxy.Place.Now().Add(leaseFor)}
	for {
		got, err := s.proxy.store.Acquire(ctx, want)
		if err == nil {
			s.lease = got
			return nil
		}
		held, heldErr := s.proxy.store.Store.Held(ctx, s.thread)
		if segno.KindOf(err) != segno.KindBusy || heldErr != nil || held.Owner == "" {
			return err
		}
		if !ownerGone(held.Owner) {
			return &segno.Error{Op: "prompt", Name: string(s.thread), Kind: segno.KindBusy, Err: &heldError{held.Owner},
				Hint: "wait for its turn to end, or fork the thread"}
		}
		if err := s.proxy.store.Release(ctx, held); err != nil && segno.KindOf(err) != segno.KindFenced {
			return err
		}
	}
}

// leaseOwner names this lane of this process.
func (s *session) leaseOwner() string {
	return s.proxy.owner + " " + segno.DerivedID("lane", string(s.id))[:8]
}

// keep renews the turn's lease until the turn ends, whatever its lane waits for.
func (t *turn) keep(p *proxy, l segno.Lease) {
	const every = leaseFor / 3
	t.renew = time.AfterFunc(every, func() {
		l.Expires = p.Place.Now().Add(leaseFor)
		got, err := p.store.Acquire(p.ctx, l)
		t.lapse.Lock()
		defer t.lapse.Unlock()
		switch {
		case !t.ended:
			if err != nil {
				p.logf("renew the lease: %v", err) // a commit under it will be refused
			} else {
				l, t.renewed = got, got // of one that had lapsed the epoch is another
			}
			t.renew.Reset(every)
		case err == nil:
			_ = p.store.Release(p.ctx, got) // the turn ended meanwhile; at worst it expires
		}
	})
}

// lease is what the turn commits under: its lease as it was renewed last.
func (t *turn) lease(first segno.Lease) segno.Lease {
	t.lapse.Lock()
	defer t.lapse.Unlock()
	if t.renewed.Epoch != 0 {
		return t.renewed
	}
	return first
}

// letGo stops the renewal of the turn's lease.
func (t *turn) letGo() {
	t.lapse.Lock()
	defer t.lapse.Unlock()
	if t.ended = true; t.renew != nil {
		t.renew.Stop()
	}
}

// ownerGone reports whether the process that owns a lease has ended. Of an owner
// of another kind nobody knows.
func ownerGone(owner string) bool {
	fields := strings.Fields(owner)
	if len(fields) < 3 || fields[0] != "acp" {
		return false
	}
	pid, err := strconv.Atoi(fields[1])
	return err == nil && !local.Alive(pid, strings.Trim(fields[2], "-"))
}

// endOrphans ends agents that earlier runs of ours started and left behind: they
// would go on with turns that are about to be closed, in sessions that are about to
// go on.
func (s *session) endOrphans(ctx context.Context, site segno.Site) error {
	turns, err := site.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Owner != "" && ownerGone(t.Owner) && t.Group > 1 && groupLives(t.Group, t.GroupStart) {
			s.proxy.logf("ending the agent of a run that is gone (process group %d)", t.Group)
			killGroup(t.Group)
			waitGroup(ctx, t.Group)
		}
	}
	return nil
}

// endTurn makes the end of a turn durable. A turn that did not end as it should is
// interrupted; what is known of why is noted.
func (s *session) endTurn(t *turn, meaning failure.Meaning) {
	ctx := context.WithoutCancel(s.proxy.ctx)
	s.lease = t.lease(s.lease)
	if !t.begun || t.unrecorded {
		return
	}
	last := t.saying.String()
	if t.answer.Line != nil {
		s.noteEnd(t)
	}
	if meaning.Turn != failure.Fine && meaning.Say != "" {
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: acp.Encode("the turn failed: " + meaning.Row + ": " + meaning.Say)})
	}
	site, err := s.site(ctx)
	if err == nil {
		r := segno.Recorder{Site: site}
		var c *segno.Checkpoint
		c, err = r.End(ctx, segno.Ending{Key: t.key, Agent: s.page.Agent, Source: s.source(), Interrupted: t.cancelled || meaning.Turn != failure.Fine,
			Message: strings.ToValidUTF8(last, "\uFFFD"), Settle: s.settled(t, meaning)})
		if c != nil {
			s.has = c.ID
			s.grow(ctx, c.ID)
		}
	}
	if err != nil {
		s.report("the turn's end is not recorded yet, the next command or turn records it: %v", err)
	}
}

// noteEnd notes how the turn ended, and what is worth keeping of what changes while
// it runs.
func (s *session) noteEnd(t *turn) {
	if t.plan != nil {
		s.note(segno.Entry{Kind: segno.EntryNote, Name: "plan", Body: segno.Clip(t.plan)})
	}
	a := t.answer
	end := ending{Message: t.lastMessage, Messages: t.messages[max(0, len(t.messages)-maxMessages):],
		Stop:  a.Text(a.Find(a.Result, "stopReason")),
		Usage: short(a.Find(a.Result, "usage").Of(a.Line)), Context: short(t.usage), Error: short(a.Error.Of(a.Line))}
	s.note(segno.Entry{Kind: segno.EntryNote, Name: "end", Body: segno.Clip(acp.Encode(end))})
}

// maxMessages is how many of a turn's messages can be named to fork at its end.
const maxMessages = 200

// short is JSON that fits in a note beside other things; what does not is left out.
func short(raw json.RawMessage) json.RawMessage {
	const most = 2 << 10
	if len(raw) > most {
		return nil
	}
	return raw
}

// settled waits for the agent's last words to reach its transcript, where it keeps
// one we can read.
func (s *session) settled(t *turn, meaning failure.Meaning) func(context.Context, segno.Source, int64) {
	last := t.saying.String()
	if s.page.Agent != "claude" || meaning.Turn != failure.Fine || strings.TrimSpace(last) == "" {
		return nil
	}
	return func(ctx context.Context, src segno.Source, since int64) {
		ctx, cancel := context.WithTimeout(ctx, settleWait)
		defer cancel()
		if err := s.proxy.Place.ClaudeTranscripts().Settle(ctx, src, last, since); err != nil {
			s.proxy.logf("the last message is not in the transcript yet: %v", err)
		}
	}
}

// releaseWait is how long a client waits for its answer because a lease is given back.
const releaseWait = 250 * time.Millisecond

// letOthers gives the lease back, so that who hears of the turn's end may prompt. A
// store that is held up gets it later, or lets it expire.
func (s *session) letOthers() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.proxy.ctx), releaseWait)
	defer cancel()
	l := s.lease
	if s.release(ctx); ctx.Err() != nil && l.Epoch != 0 {
		s.proxy.work.Go(func() { _ = s.proxy.store.Release(context.WithoutCancel(s.proxy.ctx), l) })
	}
}

// release lets others write to the thread.
func (s *session) release(ctx context.Context) {
	if s.lease.Epoch == 0 {
		return
	}
	if err := s.proxy.store.Release(ctx, s.lease); err != nil && segno.KindOf(err) != segno.KindFenced {
		s.proxy.logf("give the lease back: %v", err)
	}
	s.lease = segno.Lease{}
}

// join records that the thread goes on in a session of the agent's.
func (s *session) join(ctx context.Context, link segno.Link) error {
	if s.turn != nil && s.turn.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	if err := r.Join(ctx, s.thread, link); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// goesOn records that the open turn goes on in the session and the process there are
// now.
func (s *session) goesOn(ctx context.Context, t *turn, proc *process) error {
	if !t.begun || t.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	r := segno.Recorder{Site: site}
	return r.Amend(ctx, t.key, func(open *segno.OpenTurn) {
		open.Source = s.source()
		open.Group, open.GroupStart = proc.group()
	})
}
