package file

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// mark begins an escape in a string that JSON cannot hold. It is not a character.
const mark = "\ufdd0"

// escape makes any string valid UTF-8, reversibly.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, mark) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "%s%02x", mark, s[i])
		case s[i:i+size] == mark:
			b.WriteString(mark + mark)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var escaped = regexp.MustCompile(mark + "(" + mark + "|[0-9a-f]{2})")

// unescape returns the string that escape was called with.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(found string) string {
		if found == mark+mark {
			return mark
		}
		b, _ := hex.DecodeString(found[len(mark):]) // two digits
		return string(b)
	})
}

// clone returns a copy that shares nothing with v.
func clone[T any](v T) T { return cloneText(v, func(s string) string { return s }) }

// cloneHead is clone for a head, most of which have nothing to share.
func cloneHead(h segno.Head) segno.Head {
	if h.Link.Position == nil {
		return h
	}
	return clone(h)
}

// cloneText is clone, with every string replaced by the result of text.
func cloneText[T any](v T, text func(string) string) T {
	out := reflect.ValueOf(&v).Elem()
	out.Set(cloned(out, text))
	return v
}

func cloned(v reflect.Value, text func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
	case (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) && v.IsNil():
	case kind == reflect.String:
		out.SetString(text(v.String()))
	case kind == reflect.Pointer:
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(cloned(v.Elem(), text))
	case kind == reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(cloned(v.Field(i), text))
		}
	case kind == reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		reflect.Copy(out, v)
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			out.Index(i).Set(cloned(v.Index(i), text))
		}
	case kind == reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(cloned(key, text), cloned(value, text))
		}
	}
	return out
}
