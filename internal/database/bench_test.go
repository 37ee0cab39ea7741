package database_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the CPU time of this process, on which other programs of the machine have less influence than on the
// time that passes.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// largeFixture is a database of about 100 MB.
func largeFixture(b *testing.B) *fixture {
	f := newFixture(b)
	f.sql("PRAGMA synchronous=off", "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)",
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 25000) INSERT INTO t SELECT i, randomblob(3900) FROM c")
	return f
}

func BenchmarkUnchanged(b *testing.B) {
	f := largeFixture(b)
	w := f.attached(true)
	f.snapshot(w)
	for b.Loop() {
		f.snapshot(w)
	}
}

// A program that opens the database for each change, and one that has it open in WAL mode.
func BenchmarkOnePageChanged(b *testing.B) {
	for _, mode := range []string{"delete", "wal"} {
		b.Run(mode, func(b *testing.B) {
			f := largeFixture(b)
			change := []string{"PRAGMA journal_mode=" + mode, "UPDATE t SET x = randomblob(3900) WHERE id = 1 + abs(random()) % 25000"}
			f.sql(change...)
			if mode == "wal" {
				f.exec(f.open(), "SELECT count(*) FROM t") // as long as it is open, no other program empties the log
			}
			w := f.attached(true)
			f.snapshot(w)
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				f.sql(change...)
				before := cpuTime(b)
				b.StartTimer()
				f.snapshot(w)
				cpu += cpuTime(b) - before
			}
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkFirst(b *testing.B) {
	f := largeFixture(b)
	for b.Loop() {
		f.snapshot(f.attached(false))
	}
}
