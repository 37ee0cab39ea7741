package postgres

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/jackc/pgx/v5"
)

// TestNoDamageIsSilent flips bits of the values of a store, one at a time, as only a superuser or a broken
// disk can. Each later read must return the data that was written, or an error of another kind than
// [segno.KindNotFound].
func TestNoDamageIsSilent(t *testing.T) {
	s := openStore(t, Options{})
	trial := storetest.NewDamageTrial(t, s)
	type column struct {
		table, key, value string
		rows              []int64
	}
	columns := []column{{"commits", "n", "checkpoint", nil}, {"commits", "n", "entries", nil}, {"threads", "n", "record", nil}, {"threads", "n", "session", nil},
		{"links", "seq", "record", nil}, {"objects", "size", "data", nil}, {"workspaces", "device", "record", nil}, {"workspaces", "device", "state", nil},
		{"operations", "n", "record", nil}}
	for i, x := range columns {
		columns[i].rows = numbers(t, s, `SELECT `+x.key+` FROM {}`+x.table+` ORDER BY 1`)
	}
	for _, seed := range soak.Seeds(t, 3*len(columns), 10_000) {
		x, rnd := columns[seed%uint64(len(columns))], rand.New(rand.NewPCG(seed, 0))
		row, at, bit := x.rows[rnd.IntN(len(x.rows))], rnd.Int32(), 1<<rnd.IntN(8)
		flip := fmt.Sprintf(`UPDATE {}%[1]s SET %[2]s = set_byte(%[2]s, $2 %% length(%[2]s), get_byte(%[2]s, $2 %% length(%[2]s)) # $3) WHERE %[3]s = $1`, x.table, x.value, x.key)
		execute(t, s, flip, row, at, bit)
		if silent := trial.Silent(t.Context(), s); silent != "" {
			t.Errorf("seed %d: bit %d of byte %d of %s of row %d of %s: %s", seed, bit, at, x.value, row, x.table, silent)
		}
		execute(t, s, flip, row, at, bit)
	}
}

// TestALostRowIsNotSilent deletes each row of a thread, one at a time. No other row has the id of its commit,
// so Load returns KindNotFound for it. The list of the thread and its state, or its chain, must be damaged.
func TestALostRowIsNotSilent(t *testing.T) {
	s := openStore(t, Options{})
	storetest.NewDamageTrial(t, s)
	const thread = "thread 0"
	for _, x := range []struct {
		table string
		reads map[string]func() error
	}{
		{"commits", map[string]func() error{
			"list": func() (err error) {
				for _, err = range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: thread}) {
				}
				return err
			},
			"state": func() error {
				_, err := saver.New(s).Load(t.Context(), saver.ThreadKey{Thread: thread})
				return err
			},
		}},
		{"links", map[string]func() error{"chain": func() (err error) {
			for _, err = range s.Chain(t.Context(), thread) {
			}
			return err
		}}},
	} {
		const rowsOf = ` WHERE thread = (SELECT n FROM {}threads WHERE id = '` + thread + `')`
		execute(t, s, `CREATE TABLE {}kept_`+x.table+` AS TABLE {}`+x.table)
		for _, seq := range numbers(t, s, `SELECT seq FROM {}`+x.table+rowsOf) {
			execute(t, s, `DELETE FROM {}`+x.table+rowsOf+` AND seq = $1`, seq)
			if damagedIn(t, s) == 0 {
				t.Errorf("row %d of %s: the check finds no damage", seq, x.table)
			}
			for what, read := range x.reads {
				if err := read(); segno.KindOf(err) != segno.KindCorrupt {
					t.Errorf("row %d of %s: %s: %v", seq, x.table, what, err)
				}
			}
			execute(t, s, `INSERT INTO {}`+x.table+` SELECT * FROM {}kept_`+x.table+rowsOf+` AND seq = $1`, seq)
		}
	}
}

// damagedIn checks a store and returns the number of damaged records.
func damagedIn(t *testing.T, s *Store) int {
	t.Helper()
	reported := 0
	got, err := s.Check(t.Context(), segno.CheckPolicy{}, func(err error) bool {
		if segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("the check reports %v (%v)", err, segno.KindOf(err))
		}
		reported++
		return true
	})
	if err != nil || got.Damaged != reported {
		t.Errorf("the check reported %d of %d damaged records, %v", reported, got.Damaged, err)
	}
	return reported
}

// numbers returns the first column of a query's rows.
func numbers(t *testing.T, s *Store, query string) (all []int64) {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), s.sql(query))
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}
