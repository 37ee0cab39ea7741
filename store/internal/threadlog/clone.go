package threadlog

import (
	"reflect"
	"time"

	"github.com/dalsegno/segno"
)

// Clone returns a copy that shares nothing with v.
func Clone[T any](v T) T { return CloneText(v, nil) }

// cloneHead is like Clone, for a head. Most heads share nothing and are returned unchanged, without
// reflection.
func cloneHead(h segno.Head) segno.Head {
	if h.Link.Position == nil {
		return h
	}
	return Clone(h)
}

// CloneText is like Clone, but replaces every string by the result of text. text may be nil.
func CloneText[T any](v T, text func(string) string) T {
	out := reflect.ValueOf(&v).Elem()
	cloneInPlace(out, text)
	return v
}

// cloneInPlace replaces pointers, slices and maps in v by copies. v must be addressable.
func cloneInPlace(v reflect.Value, text func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if text != nil {
			v.SetString(text(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(cloned(v.Elem(), text).Addr())
		}
	case reflect.Struct:
		// A time is never changed in place, and its fields cannot be set.
		for i := 0; i < v.NumField() && v.Type() != reflect.TypeFor[time.Time](); i++ {
			cloneInPlace(v.Field(i), text)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(out, v)
		v.Set(out)
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			cloneInPlace(v.Index(i), text)
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			out.SetMapIndex(cloned(key, text), cloned(value, text))
		}
		v.Set(out)
	}
}

// cloned returns an addressable copy that shares nothing with v.
func cloned(v reflect.Value, text func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	cloneInPlace(out, text)
	return out
}
