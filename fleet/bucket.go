package fleet

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

// checkBucket returns an error if other processes of the fleet use another bucket: they could not read the large objects of this one. The
// first process with a bucket writes a mark into it, whose name is in the database.
func (f *Fleet) checkBucket(ctx context.Context) error {
	const op = "open fleet"
	var mark string
	err := f.store.InTx(ctx, op, f.schema, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, f.sql(`SELECT mark FROM {}fleet_bucket`)).Scan(&mark)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil || f.config.Bucket == nil && mark == "":
		return err
	case f.config.Bucket == nil:
		return segno.Errorf(segno.KindRefused, op, f.schema, "the fleet has a bucket, and this process has none").WithHint("give it the bucket of the other processes")
	case mark == "":
		return f.markBucket(ctx)
	}
	if _, err := f.config.Bucket.Get(ctx, mark); errors.Is(err, fs.ErrNotExist) {
		return segno.Errorf(segno.KindRefused, op, f.schema, "the fleet has another bucket").WithHint("give this process the bucket of the other processes")
	} else if err != nil {
		return segno.NewError(segno.KindIO, op, f.schema, err).WithHint("check that the bucket can be reached, then try again")
	}
	return nil
}

// markBucket writes the mark, unless another process was first.
func (f *Fleet) markBucket(ctx context.Context) error {
	const op = "open fleet"
	mark := "fleet/" + segno.NewID()
	if err := f.config.Bucket.Put(ctx, mark, []byte(f.schema)); err != nil {
		return segno.NewError(segno.KindIO, op, f.schema, err).WithHint("check that the bucket can be reached and written, then try again")
	}
	err := f.store.InTx(ctx, op, f.schema, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, f.sql(`INSERT INTO {}fleet_bucket (one, mark) VALUES (true, $1) ON CONFLICT DO NOTHING`), mark)
		return err
	})
	if err != nil {
		return err
	}
	return f.checkBucket(ctx)
}
