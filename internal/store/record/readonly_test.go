//go:build unix

package record

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/readonly"
)

// encodesReadOnly encodes a value with every field from read-only memory. An encoder must not write to its argument,
// because callers keep it and may use it in other goroutines.
func encodesReadOnly[T any](t *testing.T, name string, encode func(*T) []byte) {
	t.Run(name, func(t *testing.T) {
		for _, v := range []*T{filled[T](t), new(T)} {
			frozen := readonly.Copy(t, v)
			readonly.Check(t, func() {
				if got := encode(frozen); string(got) != string(encode(v)) {
					t.Error("the copy has another encoding")
				}
			})
		}
	})
}

func TestEncodingWritesNothing(t *testing.T) {
	encodesReadOnly(t, "checkpoint", func(x *segno.Checkpoint) []byte { return EncodeCheckpoint(x, true) })
	encodesReadOnly(t, "entries", func(x *[]segno.Entry) []byte { return EncodeEntries(*x, true) })
	encodesReadOnly(t, "thread", EncodeThread)
	encodesReadOnly(t, "link", EncodeLink)
	encodesReadOnly(t, "operation", EncodeOperation)
	encodesReadOnly(t, "workspace", EncodeWorkspace)
	encodesReadOnly(t, "state", EncodeState)
}
