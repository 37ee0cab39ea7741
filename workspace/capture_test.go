package workspace

import (
	"testing"
	"unsafe"
)

// TestAWorkerReusesItsBuffer verifies that a file which is a little larger than the one before needs no new memory, and that a
// worker does not keep the memory of a very large file.
func TestAWorkerReusesItsBuffer(t *testing.T) {
	w := &worker{}
	w.buffer(300 << 10)
	first := unsafe.SliceData(w.buffer(9 << 20))
	for _, n := range []int{1, 8 << 20, 9 << 20} {
		if b := w.buffer(n); len(b) != n || unsafe.SliceData(b) != first {
			t.Errorf("%d bytes are in other memory, or they are %d", n, len(b))
		}
	}
	w.buffer(10 << 20)
	if second := unsafe.SliceData(w.buffer(11 << 20)); second != unsafe.SliceData(w.buffer(17<<20)) {
		t.Error("a buffer does not double")
	}
	if b := w.buffer(65 << 20); len(b) != 65<<20 || cap(w.content) != 0 {
		t.Errorf("the worker keeps %d bytes of a file with %d", cap(w.content), len(b))
	}
}
