package memory_test

import (
	"reflect"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unclosed is a store that another owner closes.
type unclosed struct{ *memory.Store }

func (unclosed) Close() error { return nil }

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Test(t, func(*testing.T) segno.Store { return memory.New(clock.Now) }, storetest.Options{
		Clock:   clock,
		Raw:     func(_ *testing.T, s segno.Store) []byte { return inMemory(reflect.ValueOf(s), map[uintptr]bool{}) },
		Another: func(_ *testing.T, s segno.Store) segno.Store { return unclosed{s.(*memory.Store)} },
	})
}

// inMemory returns all text and bytes that are reachable from a value.
func inMemory(v reflect.Value, seen map[uintptr]bool) (raw []byte) {
	switch v.Kind() {
	case reflect.String:
		return []byte(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v.Pointer()] {
			return nil
		}
		if v.Kind() == reflect.Pointer {
			seen[v.Pointer()] = true
		}
		return inMemory(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			raw = append(raw, inMemory(v.Field(i), seen)...)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Bytes()
		}
		for i := range v.Len() {
			raw = append(raw, inMemory(v.Index(i), seen)...)
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			raw = append(raw, inMemory(key, seen)...)
			raw = append(raw, inMemory(value, seen)...)
		}
	}
	return raw
}
