// Package encodable finds values that an encoding loses silently.
package encodable

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Lost returns which part of v is missing after v was encoded and decoded, as a text that names the type, or "". The
// encoding has the exported fields of structs, or what MarshalJSON returns. If namesTypes is set, the encoding also
// records the types of values in interfaces, as that of Eino does, but not that of an array or of a pointer to a
// slice or a map.
func Lost(v any, namesTypes bool) string {
	w := walk{namesTypes: namesTypes, seen: map[visited]bool{}}
	return w.value(reflect.ValueOf(v), true)
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// walk is a walk through a value.
type walk struct {
	namesTypes bool
	seen       map[visited]bool // the pointers and maps on the way to the value
}

type visited struct {
	t  reflect.Type
	at uintptr
}

// value returns what would be lost, or "". isAny is true for the value of an interface.
func (w *walk) value(v reflect.Value, isAny bool) string {
	if !v.IsValid() {
		return ""
	}
	t := v.Type()
	if implements(t, marshaler) && implements(t, unmarshaler) {
		return ""
	}
	switch t.Kind() {
	case reflect.Interface:
		return w.value(v.Elem(), true)
	case reflect.Pointer:
		if k := t.Elem().Kind(); w.namesTypes && isAny && (k == reflect.Slice || k == reflect.Map) && !v.IsNil() {
			return fmt.Sprintf("the pointer of a %s", t)
		}
		return w.inside(v, func() string { return w.value(v.Elem(), isAny) })
	case reflect.Map:
		return w.inside(v, func() string { return w.members(v) })
	case reflect.Slice, reflect.Array:
		if w.namesTypes && isAny && t.Kind() == reflect.Array {
			return fmt.Sprintf("the length of a %s", t)
		}
		return w.elements(v)
	case reflect.Struct:
		return w.fields(v)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if !v.IsNil() {
			return fmt.Sprintf("a %s", t)
		}
	}
	return ""
}

// implements reports whether a type or its pointer has the methods of an interface.
func implements(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

func (w *walk) members(v reflect.Value) string {
	for key, value := range v.Seq2() {
		if lost := w.value(value, false); lost != "" {
			return fmt.Sprintf("%s in the key %v of a %s", lost, key, v.Type())
		}
	}
	return ""
}

func (w *walk) elements(v reflect.Value) string {
	for i := range v.Len() {
		if lost := w.value(v.Index(i), false); lost != "" {
			return lost
		}
	}
	return ""
}

func (w *walk) fields(v reflect.Value) string {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			if !v.Field(i).IsZero() {
				return fmt.Sprintf("the unexported field %s of %s", f.Name, v.Type())
			}
		} else if lost := w.value(v.Field(i), false); lost != "" {
			return lost
		}
	}
	return ""
}

// inside walks into a pointer or a map, unless it contains itself.
func (w *walk) inside(v reflect.Value, visit func() string) string {
	if v.IsNil() {
		return ""
	}
	at := visited{v.Type(), v.Pointer()}
	if w.seen[at] {
		return fmt.Sprintf("a %s that contains itself", v.Type())
	}
	w.seen[at] = true
	defer delete(w.seen, at)
	return visit()
}
