package record

import (
	"testing"

	"github.com/dalsegno/segno"
)

// BenchmarkRecords encodes and decodes a checkpoint with every field, and the entries of a step.
func BenchmarkRecords(b *testing.B) {
	c := filled[segno.Checkpoint](b)
	entries := *filled[[]segno.Entry](b)
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var one, many []byte
	measure("encode checkpoint", func() error { one = EncodeCheckpoint(c, true); return nil })
	measure("decode checkpoint", func() error { _, err := DecodeCheckpoint(one); return err })
	measure("encode entries", func() error { many = EncodeEntries(entries, true); return nil })
	measure("decode entries", func() error { _, err := DecodeEntries(many); return err })
}
