package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// Three values of a thread's row have no second copy: whether the thread is deleted, its lease, and the
// lease's epoch. The column owner ends with their checksum, eight digits between two line breaks. Rows from
// before the checksum existed get one with their next lease; until then their owner contains no line break.
const leaseSumSize = 10

// leaseSum returns the checksum as text. It is a CRC-32C of the thread's id, the owner and the other values.
func leaseSum(l *sqlstore.LeaseRow) string {
	data := append([]byte(l.Thread), l.Owner...)
	hidden := byte(0)
	if l.Hidden {
		hidden = 1
	}
	data = binary.LittleEndian.AppendUint64(append(data, hidden), uint64(l.Expires))
	data = binary.LittleEndian.AppendUint64(data, l.Epoch)
	return fmt.Sprintf("\n%08x\n", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// LeaseOwner implements [sqlstore.Database]: it returns the owner with the checksum.
func (database) LeaseOwner(l *sqlstore.LeaseRow) any {
	return append(bytes.Clone(l.Owner), leaseSum(l)...)
}

// VerifyLease implements [sqlstore.Database]. A sealed owner may contain a line break.
func (d database) VerifyLease(op string, l *sqlstore.LeaseRow) error {
	n := max(0, len(l.Owner)-leaseSumSize)
	stored := l.Owner[n:]
	hasSum := bytes.ContainsRune(l.Owner, '\n')
	if d.records.Sealer != nil {
		hasSum = len(stored) == leaseSumSize && stored[0] == '\n' && stored[leaseSumSize-1] == '\n'
	}
	if !hasSum {
		return nil
	}
	l.Owner = l.Owner[:n]
	if string(stored) != leaseSum(l) {
		return corrupt(op, string(l.Thread), errors.New("checksum mismatch in its row"))
	}
	return nil
}

// Lease implements [sqlstore.Database].
func (d database) Lease(ctx context.Context, op string, thread segno.ThreadID) (l sqlstore.LeaseRow, now time.Time, err error) {
	err = d.read(ctx, op, string(thread), func(ctx context.Context, c *conn) error {
		l, err = d.readLease(ctx, c, op, thread)
		return err
	})
	return l, d.options.Clock(), err
}

// readLease reads the lease of a thread that is not deleted.
func (s *Store) readLease(ctx context.Context, c *conn, op string, thread segno.ThreadID) (sqlstore.LeaseRow, error) {
	l := sqlstore.LeaseRow{Thread: thread}
	found, err := c.row(ctx, `SELECT hidden, owner, expires, epoch FROM threads WHERE id = ?`, []any{string(thread)}, l.Dest()...)
	if err == nil && found {
		err = database{s}.VerifyLease(op, &l)
	} else if err == nil {
		err = missedRow(ctx, c, op, "threads", string(thread))
	}
	if err == nil && (!found || l.Hidden) {
		err = notFound(op, string(thread))
	}
	return l, err
}

// verifyDeleted verifies the rows of the deleted threads.
func (s *Store) verifyDeleted(ctx context.Context, c *conn) error {
	var l sqlstore.LeaseRow
	return c.Query(ctx, `SELECT id, hidden, owner, expires, epoch FROM threads WHERE hidden`, nil,
		append([]any{&l.Thread}, l.Dest()...), func() error { return database{s}.VerifyLease("list threads", &l) })
}
