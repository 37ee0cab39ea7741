package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	return s.readHead(ctx, thread, s.read)
}

// readHead reads a head with read or readApart.
func (s *Store) readHead(ctx context.Context, thread segno.ThreadID,
	read func(ctx context.Context, op, name string, f func(context.Context, *conn) error) error) (head segno.Head, err error) {
	const op = "read head"
	err = read(ctx, op, string(thread), func(ctx context.Context, c *conn) (err error) {
		head, err = s.verifiedHead(ctx, c, thread)
		return err
	})
	return head, err
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	const op = "delete thread"
	err := s.write(ctx, op, string(thread), func(ctx context.Context, tx *conn) error {
		l, err := s.readLease(ctx, tx, op, thread)
		if err != nil {
			return err
		}
		l.hidden = true
		if _, err := tx.exec(ctx, `UPDATE threads SET hidden = 1, owner = ? WHERE id = ?`, l.column(), string(thread)); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `DELETE FROM phases WHERE phase IN `+allPhases+` AND id = ?`, string(thread))
		return err
	})
	s.watch.notifier.Notify(thread)
	return err
}

// Acquire implements [segno.Leaser]. The owner of a lease that has not expired renews it under the same
// epoch, unless l names an older epoch.
func (s *Store) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	const op = "acquire lease"
	if l.Owner == "" || !l.Expires.After(s.options.Clock()) {
		return l, segno.Errorf(segno.KindInvalid, op, string(l.Thread), "it needs an owner and an end in the future")
	}
	err := s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		isHeld := owner != "" && s.options.Clock().Before(time.Unix(0, row.expires))
		switch {
		case isHeld && owner != l.Owner:
			return segno.Errorf(segno.KindBusy, op, string(l.Thread), "it is held by %s", owner)
		case l.Epoch != 0 && l.Epoch < row.epoch:
			return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		l.Epoch = row.epoch
		if !isHeld {
			l.Epoch++
		}
		return s.writeLease(ctx, tx, l)
	})
	return l, err
}

// Release implements [segno.Leaser]. The error is [segno.KindFenced] if the caller does not hold the lease.
func (s *Store) Release(ctx context.Context, l segno.Lease) error {
	const op = "release lease"
	return s.write(ctx, op, string(l.Thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, l.Thread)
		if err != nil {
			return err
		}
		if owner != l.Owner || row.epoch != l.Epoch {
			return segno.NewError(segno.KindFenced, op, string(l.Thread), nil)
		}
		return s.writeLease(ctx, tx, segno.Lease{Thread: l.Thread, Epoch: l.Epoch, Expires: time.Unix(0, 0)})
	})
}

// LeaseOf implements [segno.Leaser].
func (s *Store) LeaseOf(ctx context.Context, thread segno.ThreadID) (l segno.Lease, err error) {
	const op = "read lease"
	err = s.read(ctx, op, string(thread), func(ctx context.Context, tx *conn) error {
		row, owner, err := s.openLease(ctx, tx, op, thread)
		if expires := time.Unix(0, row.expires); err == nil && owner != "" && s.options.Clock().Before(expires) {
			l = segno.Lease{Thread: thread, Owner: owner, Epoch: row.epoch, Expires: expires}
		}
		return err
	})
	return l, err
}

// readLease reads the lease of a thread that is not deleted.
func (s *Store) readLease(ctx context.Context, tx *conn, op string, thread segno.ThreadID) (*leaseRow, error) {
	l := &leaseRow{thread: thread}
	found, err := tx.row(ctx, `SELECT hidden, owner, expires, epoch FROM threads WHERE id = ?`, []any{string(thread)}, &l.hidden,
		&l.owner, &l.expires, &l.epoch)
	if err == nil && found {
		err = l.verify(op, s.records.Sealer != nil)
	} else if err == nil {
		err = missedRow(ctx, tx, op, "threads", string(thread))
	}
	if err == nil && (!found || l.hidden) {
		err = notFound(op, string(thread))
	}
	return l, err
}

// openLease is readLease that also returns the owner as the caller of Acquire named it.
func (s *Store) openLease(ctx context.Context, tx *conn, op string, thread segno.ThreadID) (*leaseRow, string, error) {
	l, err := s.readLease(ctx, tx, op, thread)
	owner := l.owner
	if err == nil && len(owner) > 0 {
		owner, err = s.records.Sealer.Open(owner, "lease", string(thread))
		err = corrupt(op, string(thread), err)
	}
	return l, string(owner), err
}

// writeLease writes a lease. A lease without an owner is not held.
func (s *Store) writeLease(ctx context.Context, tx *conn, l segno.Lease) error {
	row := leaseRow{thread: l.Thread, owner: []byte(l.Owner), expires: l.Expires.UnixNano(), epoch: l.Epoch}
	if l.Owner != "" {
		row.owner = s.records.Sealer.Seal(row.owner, "lease", string(l.Thread))
	}
	_, err := tx.exec(ctx, `UPDATE threads SET owner = ?, expires = ?, epoch = ? WHERE id = ?`, row.column(), row.expires,
		int64(l.Epoch), string(l.Thread))
	return err
}

// Three values of a thread's row have no second copy: whether the thread is deleted, its lease, and the
// lease's epoch. The column owner ends with their checksum, eight digits between two line breaks. Rows that
// were written before there was a checksum get one with their next lease; until then their owner has no line
// break.
const leaseSumSize = 10

// leaseRow is the part of a thread's row that the checksum covers.
type leaseRow struct {
	thread  segno.ThreadID
	hidden  bool
	owner   []byte // as stored, without the checksum
	expires int64
	epoch   uint64
}

// sum returns the checksum as text: a CRC-32C of the thread's id, the owner and the other values.
func (l *leaseRow) sum() (text [leaseSumSize]byte) {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, []byte(l.thread))
	sum = crc32.Update(sum, table, l.owner)
	var rest [17]byte
	if l.hidden {
		rest[0] = 1
	}
	binary.LittleEndian.PutUint64(rest[1:], uint64(l.expires))
	binary.LittleEndian.PutUint64(rest[9:], l.epoch)
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], crc32.Update(sum, table, rest[:]))
	text[0], text[leaseSumSize-1] = '\n', '\n'
	hex.Encode(text[1:leaseSumSize-1], raw[:])
	return text
}

// column returns the owner with the checksum.
func (l *leaseRow) column() []byte {
	sum := l.sum()
	return append(l.owner[:len(l.owner):len(l.owner)], sum[:]...)
}

// verify removes the checksum from the owner, if there is one, and compares it. A sealed owner may contain a
// line break.
func (l *leaseRow) verify(op string, isSealed bool) error {
	n := max(0, len(l.owner)-leaseSumSize)
	stored := l.owner[n:]
	hasSum := bytes.ContainsRune(l.owner, '\n')
	if isSealed {
		hasSum = len(stored) == leaseSumSize && stored[0] == '\n' && stored[leaseSumSize-1] == '\n'
	}
	if !hasSum {
		return nil
	}
	l.owner = l.owner[:n]
	if sum := l.sum(); string(stored) != string(sum[:]) {
		return corrupt(op, string(l.thread), errors.New("its row does not have its checksum"))
	}
	return nil
}

// verifyDeleted verifies the rows of the deleted threads, which a list of threads does not contain.
func (s *Store) verifyDeleted(ctx context.Context) error {
	const op = "list threads"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		return c.rows(ctx, `SELECT id, owner, expires, epoch FROM threads WHERE hidden`, nil, func(r sqlstore.Row) error {
			l := leaseRow{hidden: true}
			if err := r.Scan(&l.thread, &l.owner, &l.expires, &l.epoch); err != nil {
				return err
			}
			return l.verify(op, s.records.Sealer != nil)
		})
	})
}
