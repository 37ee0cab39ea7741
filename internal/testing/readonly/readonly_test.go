//go:build unix

package readonly

import (
	"reflect"
	"testing"
	"time"
)

type inner struct {
	bytes []byte
	list  [2]*int
}

type outer struct {
	name  string
	when  time.Time
	one   *inner
	many  []inner
	pairs map[string]int
}

// recorder is a test that records its failure instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Helper()               {}

func TestCheckFindsEachWrite(t *testing.T) {
	n := 7
	v := &outer{name: "x", when: time.Now(), one: &inner{bytes: []byte("ab"), list: [2]*int{&n}},
		many: []inner{{}, {bytes: []byte("cd"), list: [2]*int{&n, &n}}}, pairs: map[string]int{"a": 1}}
	frozen := Copy(t, v)
	if !reflect.DeepEqual(v, frozen) {
		t.Fatalf("the copy is %+v, want %+v", frozen, v)
	}
	for name, write := range map[string]func(){
		"a field":             func() { frozen.name = "y" },
		"behind a pointer":    func() { frozen.one.list[1] = &n },
		"behind two pointers": func() { *frozen.one.list[0] = 7 },
		"an item":             func() { frozen.many[0].bytes = nil },
		"bytes of an item":    func() { frozen.many[1].bytes[1] = 'd' },
	} {
		r := &recorder{TB: t}
		if Check(r, write); !r.failed {
			t.Errorf("a write of %s is not found", name)
		}
	}
	Check(t, func() { _ = append(frozen.many[1].bytes, 'e') })
	if v.many[1].bytes[0] = 'z'; frozen.many[1].bytes[0] != 'c' {
		t.Error("the copy shares bytes with the original")
	}
}
