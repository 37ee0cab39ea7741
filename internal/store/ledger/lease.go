package ledger

import (
	"time"

	"github.com/dalsegno/segno"
)

// Acquire decides whether l may be acquired or renewed at the time now, and returns it with its epoch. held is the
// newest lease of the thread, which may be released or expired. epoch is the thread's epoch. A lease that is not a
// renewal gets the next epoch, which fences earlier owners.
func Acquire(held segno.Lease, epoch uint64, l segno.Lease, now time.Time) (segno.Lease, error) {
	const op = "acquire lease"
	held = InForce(held, now)
	switch {
	case l.Owner == "" || !l.Expires.After(now):
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "a lease needs an owner and an end in the future")
	case held.Owner != "" && held.Owner != l.Owner:
		return l, segno.Errorf(segno.KindBusy, op, string(l.Thread), "the lease is held by %s", held.Owner)
	case l.Epoch != 0 && l.Epoch < epoch:
		return l, segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
	}
	if l.Epoch = epoch; held.Owner == "" {
		l.Epoch++
	}
	return l, nil
}

// InForce returns l if it is in force at the time now, else the zero Lease.
func InForce(l segno.Lease, now time.Time) segno.Lease {
	if l.Owner == "" || !now.Before(l.Expires) {
		return segno.Lease{}
	}
	return l
}
