package database_test

import (
	"testing"
)

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

func BenchmarkOnePageChanged(b *testing.B) {
	f := largeFixture(b)
	w := f.attached(true)
	f.snapshot(w)
	for b.Loop() {
		b.StopTimer()
		f.sql("UPDATE t SET x = randomblob(3900) WHERE id = 1 + abs(random()) % 25000")
		b.StartTimer()
		f.snapshot(w)
	}
}

func BenchmarkFirst(b *testing.B) {
	f := largeFixture(b)
	for b.Loop() {
		f.snapshot(f.attached(false))
	}
}
