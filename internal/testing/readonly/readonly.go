//go:build unix

// Package readonly puts the values of tests into read-only memory, so that every run of a test detects
// a function that writes its input, even without the race detector.
package readonly

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Copy returns a copy of *v in read-only memory, together with all values that *v refers to by
// pointers and slices. The copy shares maps, strings, interfaces and functions with *v. It is valid
// until the test ends.
func Copy[T any](t testing.TB, v *T) *T {
	t.Helper()
	typ := reflect.TypeFor[T]()
	var need arena
	need.copy(typ, unsafe.Pointer(v), 1)
	memory, err := unix.Mmap(-1, 0, max(need.used, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
		runtime.KeepAlive(v) // the collector does not see the pointers in the copy
	})
	a := arena{memory: memory}
	frozen := (*T)(a.copy(typ, unsafe.Pointer(v), 1))
	if err := unix.Mprotect(memory, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	return frozen
}

// Check calls do. If do writes read-only memory, the test fails with the stack of the write.
func Check(t testing.TB, do func()) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, isFault := p.(interface{ Addr() uintptr }); !isFault {
				panic(p)
			}
			t.Errorf("it writes its input: %v\n%s", p, debug.Stack())
		}
	}()
	do()
}

// arena allocates copies from a piece of memory. If it has no memory, it only counts bytes.
type arena struct {
	memory []byte
	used   int
}

// copy copies n consecutive values of a type and all that they refer to.
func (a *arena) copy(typ reflect.Type, from unsafe.Pointer, n int) unsafe.Pointer {
	const align = 16
	size := int(typ.Size()) * n
	at := a.used
	a.used += (size + align - 1) / align * align
	to := from // without memory, count the rest from the original
	if a.memory != nil {
		to = unsafe.Pointer(unsafe.SliceData(a.memory[at:]))
		copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
	}
	for i := range n {
		a.follow(typ, unsafe.Add(to, i*int(typ.Size())))
	}
	return to
}

// follow copies what the value at p refers to, and makes the value refer to the copies.
func (a *arena) follow(typ reflect.Type, p unsafe.Pointer) {
	switch typ.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128,
		reflect.String, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
	case reflect.Struct:
		for f := range typ.NumField() {
			a.follow(typ.Field(f).Type, unsafe.Add(p, typ.Field(f).Offset))
		}
	case reflect.Array:
		for i := range typ.Len() {
			a.follow(typ.Elem(), unsafe.Add(p, i*int(typ.Elem().Size())))
		}
	case reflect.Pointer:
		to := (*unsafe.Pointer)(p)
		if *to == nil || typ.Elem() == reflect.TypeFor[time.Location]() {
			return
		}
		if c := a.copy(typ.Elem(), *to, 1); a.memory != nil {
			*to = c
		}
	case reflect.Slice:
		s := (*[]struct{})(p)
		if len(*s) == 0 {
			return
		}
		if c := a.copy(typ.Elem(), unsafe.Pointer(unsafe.SliceData(*s)), len(*s)); a.memory != nil {
			*s = unsafe.Slice((*struct{})(c), len(*s))
		}
	default:
		panic(fmt.Sprintf("readonly: a value of kind %v", typ.Kind()))
	}
}
