//go:build unix

package kv

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/testing/readonly"
)

// TestEncodingWritesNothing encodes records and states of threads in read-only memory. The store caches
// both and encodes them from several goroutines, so an encoder that writes to them, even the same
// value, would cause a data race.
func TestEncodingWritesNothing(t *testing.T) {
	code := &coder{Squeezer: record.NewSqueezer()}
	line := lineage{runs: []run{{"a", areaLog, 1, 3}, {"b", areaOld, 2, 9}, {"a", areaLog, 12, 12}}, base: 4, cut: 1}
	for deleted := range 2 {
		for pos := range uint64(2) {
			thread := ledger.Thread{Head: segno.Head{Thread: "a", Head: "h", Tip: "p", Seq: 7, Turn: 3, Epoch: 2,
				Link: segno.Link{Session: "s", Position: &segno.Position{Session: "s", Digest: []byte{1, 2}}}}, Exists: pos == 0, Deleted: deleted == 1}
			st := &threadState{Thread: thread, pos: pos, linkPos: 5, stamp: 8, info: segno.Thread{ID: "a", Title: "title", Created: time.Unix(1, 2)},
				line: line, turn: 3, copied: 2, renewed: 6}
			t.Run(fmt.Sprint("state ", deleted, pos), func(t *testing.T) {
				frozen := readonly.Copy(t, st)
				readonly.Check(t, func() {
					if !bytes.Equal(frozen.encode(code), st.encode(code)) {
						t.Error("the copy has another encoding")
					}
				})
			})
		}
	}
	for _, heads := range [][2]segno.CommitID{{"id", "id"}, {"id", "x"}, {"x", "id"}, {"x", "x"}, {"x", "y"}} {
		e := &logRecord{at: position{"a", areaLog, 13}, id: "id", owner: "b", parent: "p", node: true, lineTurn: 3, digest: [16]byte{1}, stamp: 9,
			line: line, Thread: ledger.Thread{Head: segno.Head{Thread: "a", Head: heads[0], Tip: heads[1]}, Phase: segno.PhaseOpen}, linkPos: 13,
			create: []byte("create"), link: []byte("link"), pin: &segno.Pin{Checkpoint: "p", Name: "pin"}, checkpoint: []byte("checkpoint"),
			objects: []segno.Hash{{1}, {2}}, body: []byte("body"), tag: "tag", parts: 2}
		t.Run(fmt.Sprint("record ", heads), func(t *testing.T) {
			frozen := readonly.Copy(t, e)
			readonly.Check(t, func() {
				if !bytes.Equal(frozen.encode(code), e.encode(code)) {
					t.Error("the copy has another encoding")
				}
			})
		})
	}
}
