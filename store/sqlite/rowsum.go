package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"

	"github.com/dalsegno/segno"
)

// A thread's row has no second copy of three values: whether the thread is hidden, its lease,
// and the lease's epoch. The column owner ends with a checksum of them, eight digits between
// two line breaks. Rows that were written before there was a checksum get one with their next
// lease; until then their owner has none, and no line break.
const rowSumSize = 10

var errRowSum = errors.New("its row does not have its checksum")

// leaseRow is what the checksum is of.
type leaseRow struct {
	thread  segno.ThreadID
	hidden  bool
	owner   []byte // as it is stored, but without the checksum
	expires int64
	epoch   uint64
}

func (l *leaseRow) sum() (text [rowSumSize]byte) {
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
	text[0], text[rowSumSize-1] = '\n', '\n'
	hex.Encode(text[1:rowSumSize-1], raw[:])
	return text
}

// column is the owner with the checksum.
func (l *leaseRow) column() []byte {
	sum := l.sum()
	return append(l.owner[:len(l.owner):len(l.owner)], sum[:]...)
}

// check takes the checksum off the owner, if it has one, and compares it. A sealed owner may
// have a line break anywhere.
func (l *leaseRow) check(op string, isSealed bool) error {
	n := max(0, len(l.owner)-rowSumSize)
	said := l.owner[n:]
	hasSum := bytes.ContainsRune(l.owner, '\n')
	if isSealed {
		hasSum = len(said) == rowSumSize && said[0] == '\n' && said[rowSumSize-1] == '\n'
	}
	if !hasSum {
		return nil
	}
	l.owner = l.owner[:n]
	if sum := l.sum(); string(said) != string(sum[:]) {
		return corrupt(op, string(l.thread), errRowSum)
	}
	return nil
}

// checkHidden compares the checksums of the threads that are hidden: a list does not have them.
func (s *Store) checkHidden(ctx context.Context) error {
	const op = "list threads"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		return c.rows(ctx, `SELECT id, owner, expires, epoch FROM threads WHERE hidden`, nil, func(r *sql.Rows) error {
			l := leaseRow{hidden: true}
			if err := r.Scan(&l.thread, &l.owner, &l.expires, &l.epoch); err != nil {
				return err
			}
			return l.check(op, s.seal != nil)
		})
	})
}
