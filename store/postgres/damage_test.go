package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestDamageIsNamed damages one record at a time. A read returns KindCorrupt, never KindNotFound, and names
// the record.
func TestDamageIsNamed(t *testing.T) {
	noisy := noise(600 << 10)
	for name, x := range map[string]struct {
		damage, want string
		read         func(ctx context.Context, s *Store) error
	}{
		"entries":    {`UPDATE {}commits SET entries = '\xff' WHERE id = 'next'`, "next", loadNext},
		"torn entry": {`UPDATE {}commits SET entries = substr(entries, 1, 20) WHERE id = 'next'`, "next", loadNext},
		"checkpoint": {`UPDATE {}commits SET checkpoint = '\x0001ff' WHERE id = 'next'`, "next", loadNext},
		"listed checkpoint": {`UPDATE {}commits SET checkpoint = '\x0001ff' WHERE id = 'next'`, "next", func(ctx context.Context,
			s *Store) error {
			for _, err := range s.Checkpoints(ctx, segno.CheckpointQuery{}) {
				return err
			}
			return nil
		}},
		"a checkpoint of noughts": {`UPDATE {}commits SET checkpoint = decode(repeat('00', length(checkpoint)), 'hex')
			WHERE id = 'next'`, "next", loadNext},
		"a checkpoint that is gone, without entries": {`UPDATE {}commits SET checkpoint = NULL WHERE id = 'next'`, "next",
			func(ctx context.Context, s *Store) error {
				_, err := s.Load(ctx, "next", segno.Window{})
				return err
			}},
		"a checkpoint that is gone": {`UPDATE {}commits SET checkpoint = NULL WHERE id = 'next'`, "next", loadNext},
		"entries that are gone":     {`UPDATE {}commits SET entries = NULL WHERE id = 'next'`, "next", loadNext},
		"entries cut short":         {`UPDATE {}commits SET entries = substr(entries, 1, 3) WHERE id = 'next'`, "next", loadNext},
		"a beginning cut off":       {`UPDATE {}commits SET line = n, depth = 0 WHERE id = 'next'`, "next", loadNext},
		"a beginning that is gone":  {`DELETE FROM {}commits WHERE depth = 0`, "next", loadNext},
		"a gap":                     {`UPDATE {}commits SET line = NULL WHERE id = 'middle'`, "next", loadNext},
		"a body":                    {`UPDATE {}bodies SET data = '\x00'`, "large", loadLarge},
		"a body gone":               {`DELETE FROM {}bodies`, "large", loadLarge},
		"an object": {`UPDATE {}objects SET data = '\x00616263' WHERE size = 14`,
			segno.HashOf([]byte("object of next")).String(), getNext},
		"object empty": {`UPDATE {}objects SET data = '' WHERE size = 14`,
			segno.HashOf([]byte("object of next")).String(), getNext},
		"the head session": {`UPDATE {}threads SET session = '\xff'`, "thread", func(ctx context.Context, s *Store) error {
			_, err := s.Head(ctx, "thread")
			return err
		}},
		"a thread": {`UPDATE {}threads SET record = '\xff'`, "thread", func(ctx context.Context, s *Store) error {
			for _, err := range s.Threads(ctx, segno.ThreadQuery{}) {
				return err
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Options{})
			fill(t, s, noisy)
			if err := x.read(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			execute(t, s, x.damage)
			err := x.read(t.Context(), s)
			if segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v (%v); want it to be damage and to name %q", err, segno.KindOf(err), x.want)
			}
		})
	}
}

// fill creates a thread of four commits; the entries of "large" are a body.
func fill(t *testing.T, s *Store, large string) {
	t.Helper()
	head, err := s.Commit(t.Context(), base("thread"))
	for _, id := range []segno.CommitID{"middle", "next", "large"} {
		var c segno.Commit
		if err == nil {
			c, err = turn(t.Context(), s, head, id)
		}
		if id == "large" {
			c.Entries[0].Body = []byte(`"` + large + `"`)
		}
		if err == nil {
			head, err = s.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func loadNext(ctx context.Context, s *Store) error  { return load(ctx, s, "next") }
func loadLarge(ctx context.Context, s *Store) error { return load(ctx, s, "large") }

func load(ctx context.Context, s *Store, id segno.CommitID) error {
	_, err := s.Load(ctx, id, segno.Window{Entries: true})
	return err
}

func getNext(ctx context.Context, s *Store) error {
	_, err := s.Objects().Get(ctx, segno.HashOf([]byte("object of next")))
	return err
}

// TestABucketWithoutItsBody verifies that a body that is missing in the bucket is damage, and that a store
// that was opened without the bucket reports that.
func TestABucketWithoutItsBody(t *testing.T) {
	bucket := new(memoryBucket)
	s := openStore(t, Options{Bucket: bucket})
	fill(t, s, noise(600<<10))
	if n := damagedIn(t, s); n != 0 {
		t.Errorf("the check of a whole store finds %d damaged records", n)
	}
	o := s.options
	o.Bucket = nil
	without := openStore(t, o)
	if err := loadLarge(t.Context(), without); segno.KindOf(err) != segno.KindRefused || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("without the bucket: %v", err)
	}
	if err := loadNext(t.Context(), without); err != nil {
		t.Errorf("what is not in the bucket: %v", err)
	}
	names := namesIn(t, bucket)
	if len(names) != 1 {
		t.Fatalf("the bucket holds %v", names)
	}
	bucket.objects.Store(names[0], []byte("other bytes"))
	if err := loadLarge(t.Context(), s); segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), "large") {
		t.Errorf("other bytes: %v", err)
	}
	if err := bucket.Delete(t.Context(), names[0]); err != nil {
		t.Fatal(err)
	}
	if err := loadLarge(t.Context(), s); segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), "large") {
		t.Errorf("no bytes: %v", err)
	}
}
