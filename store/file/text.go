package file

import (
	"encoding/hex"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// mark begins an escape in a string that JSON cannot hold. It is no character.
const mark = "\ufdd0"

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, mark) }

// escape makes any string valid UTF-8, reversibly.
func escape(s string) string {
	if isText(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(mark)
			b.WriteString(hex.EncodeToString([]byte{s[0]}))
		case s[:n] == mark:
			b.WriteString(mark + mark)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unescape returns what escape was given.
func unescape(s string) string {
	before, rest, found := strings.Cut(s, mark)
	if !found {
		return s
	}
	var b strings.Builder
	for found {
		b.WriteString(before)
		if after, twice := strings.CutPrefix(rest, mark); twice {
			b.WriteString(mark)
			rest = after
		} else if len(rest) >= 2 {
			if c, err := hex.DecodeString(rest[:2]); err == nil {
				b.Write(c)
				rest = rest[2:]
			}
		}
		before, rest, found = strings.Cut(rest, mark)
	}
	b.WriteString(before)
	return b.String()
}

func same(s string) string { return s }

// clone returns a copy that shares nothing with v, with every string mapped. A
// moment in a zone that RFC 3339 cannot write becomes UTC.
func clone[T any](v T, text func(string) string) T {
	reflect.ValueOf(&v).Elem().Set(cloned(reflect.ValueOf(&v).Elem(), text))
	return v
}

// isPlain reports whether clone with escape would change nothing.
func isPlain(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return isText(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || isPlain(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			_, offset := v.Interface().(time.Time).Zone()
			return offset%60 == 0
		}
		for i := range v.NumField() {
			if !isPlain(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			if !isPlain(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if !isPlain(key) || !isPlain(value) {
				return false
			}
		}
	}
	return true
}

func cloned(v reflect.Value, text func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cloned(v.Elem(), text))
		}
	case reflect.Struct:
		if when, ok := v.Interface().(time.Time); ok {
			if _, offset := when.Zone(); offset%60 != 0 {
				out.Set(reflect.ValueOf(when.UTC()))
			}
			break
		}
		for i := range v.NumField() {
			out.Field(i).Set(cloned(v.Field(i), text))
		}
	case reflect.Slice:
		if v.IsNil() {
			break
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			reflect.Copy(out, v)
			break
		}
		for i := range v.Len() {
			out.Index(i).Set(cloned(v.Index(i), text))
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(cloned(key, text), cloned(value, text))
		}
	}
	return out
}
