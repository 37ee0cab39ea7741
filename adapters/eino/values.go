package segnoeino

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/dalsegno/segno"
)

// checkValue returns an error that names the type if Eino's serializer would lose a part of v silently. Between two
// steps, values are serialized, and without [Invoke] they are not. Types that the serializer does not know are its
// own errors, which name the type.
func checkValue(what string, v any) error {
	w := valueWalk{seen: map[visited]bool{}}
	if lost := w.walk(reflect.ValueOf(v), true); lost != "" {
		return segno.Errorf(segno.KindInvalid, opRun, what, "a value of type %T cannot be saved: %s", v, lost).
			WithHint("export the fields, or give the type the methods MarshalJSON and UnmarshalJSON")
	}
	return nil
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// valueWalk walks a value as Eino's serializer does.
type valueWalk struct {
	seen map[visited]bool // the pointers and maps on the way to the value
}

type visited struct {
	t  reflect.Type
	at uintptr
}

// walk returns what would be lost, or "". isAny is true for the value of an interface.
func (w *valueWalk) walk(v reflect.Value, isAny bool) string {
	if !v.IsValid() {
		return ""
	}
	t := v.Type()
	if pt := reflect.PointerTo(t); (t.Implements(marshaler) || pt.Implements(marshaler)) && (t.Implements(unmarshaler) || pt.Implements(unmarshaler)) {
		return ""
	}
	switch t.Kind() {
	case reflect.Interface:
		return w.walk(v.Elem(), true)
	case reflect.Pointer:
		if k := t.Elem().Kind(); isAny && (k == reflect.Slice || k == reflect.Map) && !v.IsNil() {
			return fmt.Sprintf("the pointer of a %s", t)
		}
		return w.inside(v, func() string { return w.walk(v.Elem(), isAny) })
	case reflect.Map:
		return w.inside(v, func() string {
			for key, value := range v.Seq2() {
				if lost := w.walk(value, false); lost != "" {
					return fmt.Sprintf("%s in the key %v of a %s", lost, key, t)
				}
			}
			return ""
		})
	case reflect.Slice, reflect.Array:
		if isAny && t.Kind() == reflect.Array {
			return fmt.Sprintf("the length of a %s", t)
		}
		for i := range v.Len() {
			if lost := w.walk(v.Index(i), false); lost != "" {
				return lost
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				if !v.Field(i).IsZero() {
					return fmt.Sprintf("the unexported field %s of %s", f.Name, t)
				}
			} else if lost := w.walk(v.Field(i), false); lost != "" {
				return lost
			}
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if !v.IsNil() {
			return fmt.Sprintf("a %s", t)
		}
	}
	return ""
}

// inside walks into a pointer or a map, unless it contains itself.
func (w *valueWalk) inside(v reflect.Value, walk func() string) string {
	if v.IsNil() {
		return ""
	}
	at := visited{v.Type(), v.Pointer()}
	if w.seen[at] {
		return fmt.Sprintf("a %s that contains itself", v.Type())
	}
	w.seen[at] = true
	defer delete(w.seen, at)
	return walk()
}
