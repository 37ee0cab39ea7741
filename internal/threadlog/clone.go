package threadlog

import (
	"reflect"
	"time"

	"github.com/dalsegno/segno"
)

// Clone returns a copy that shares nothing with v.
func Clone[T any](v T) T { return CloneText(v, nil) }

// cloneHead is Clone for a head, most of which have nothing to share.
func cloneHead(h segno.Head) segno.Head {
	if h.Link.Position == nil {
		return h
	}
	return Clone(h)
}

// CloneText is Clone, with every string replaced by the result of text unless text is nil.
func CloneText[T any](v T, text func(string) string) T {
	out := reflect.ValueOf(&v).Elem()
	cloneInPlace(out, text)
	return v
}

// cloneInPlace replaces all that v shares with other values by copies. v is addressable.
func cloneInPlace(v reflect.Value, text func(string) string) {
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
	case (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) && v.IsNil():
	case kind == reflect.String && text != nil:
		v.SetString(text(v.String()))
	case kind == reflect.Pointer:
		v.Set(cloned(v.Elem(), text).Addr())
	case kind == reflect.Struct:
		for i := range v.NumField() {
			cloneInPlace(v.Field(i), text)
		}
	case kind == reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(out, v)
		v.Set(out)
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			cloneInPlace(v.Index(i), text)
		}
	case kind == reflect.Map:
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
