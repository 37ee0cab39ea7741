package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// canonical writes v as JSON in the form of RFC 8785: no white space, keys in the order of
// their UTF-16 code units, and the shortest escapes. Documents with the same content have
// the same bytes. The content is what encoding/json would write.
func canonical(v any) ([]byte, error) {
	return canonicalForm{}.append(nil, reflect.ValueOf(v))
}

// A canonicalForm caches the fields of the types that it has encoded.
type canonicalForm map[reflect.Type][]canonicalField

type canonicalField struct {
	key       string
	start     string // the key as a document has it: "key":
	index     int
	omitEmpty bool
}

// fields returns the fields of a struct in the order of their keys.
func (c canonicalForm) fields(t reflect.Type) []canonicalField {
	if fields, ok := c[t]; ok {
		return fields
	}
	var fields []canonicalField
	for i := range t.NumField() {
		key, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields = append(fields, canonicalField{key, `"` + key + `":`, i, option == "omitempty"})
	}
	slices.SortFunc(fields, func(x, y canonicalField) int { return compareKeys(x.key, y.key) })
	c[t] = fields
	return fields
}

func (c canonicalForm) knows(t reflect.Type) bool {
	_, known := c[t]
	return known || isPlain(t)
}

// isPlain reports whether a struct is one of this package's types: each field has a key, and
// encoding/json has no special form for it.
func isPlain(t reflect.Type) bool {
	for i := range t.NumField() {
		key, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if key == "" || key == "-" || option != "" && option != "omitempty" {
			return false
		}
	}
	return !t.Implements(reflect.TypeFor[json.Marshaler]())
}

func compareKeys(x, y string) int {
	return slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y)))
}

func (c canonicalForm) append(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Invalid:
		return append(b, "null"...), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return appendInt(b, v.Int())
	case reflect.String:
		if v.Type() != reflect.TypeFor[json.Number]() {
			return appendString(b, v.String())
		}
		return appendNumber(b, json.Number(v.String()))
	case reflect.Pointer, reflect.Interface:
		return c.append(b, v.Elem())
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			return c.appendList(b, v)
		}
	case reflect.Struct:
		if c.knows(v.Type()) {
			return c.appendStruct(b, v)
		}
	case reflect.Map:
		if plain, ok := v.Interface().(map[string]any); ok && plain != nil {
			return c.appendMap(b, plain)
		}
	}
	return c.appendOther(b, v)
}

// appendOther writes rare kinds of values as encoding/json does.
func (c canonicalForm) appendOther(b []byte, v reflect.Value) ([]byte, error) {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, err
	}
	return c.append(b, reflect.ValueOf(plain))
}

func (c canonicalForm) appendList(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = c.append(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func (c canonicalForm) appendMap(b []byte, v map[string]any) ([]byte, error) {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	b = append(b, '{')
	var err error
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, k); err != nil {
			return nil, err
		}
		if b, err = c.append(append(b, ':'), reflect.ValueOf(v[k])); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (c canonicalForm) appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	var err error
	first := true
	for _, f := range c.fields(v.Type()) {
		value := v.Field(f.index)
		if f.omitEmpty && isEmpty(value) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		if b, err = c.append(append(b, f.start...), value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// isEmpty reports whether encoding/json leaves out a field with omitempty and this value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// appendInt writes a whole number. It refuses numbers beyond 2^53, because other readers lose digits.
func appendInt(b []byte, n int64) ([]byte, error) {
	if n > 1<<53 || n < -(1<<53) {
		return nil, fmt.Errorf("number %d has no exact form", n)
	}
	return strconv.AppendInt(b, n, 10), nil
}

// appendNumber writes a number as ECMAScript does, which is the form of encoding/json for a
// float64. It refuses the numbers that appendInt refuses.
func appendNumber(b []byte, n json.Number) ([]byte, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("number %s has no exact form", n)
	}
	if f > 1<<53 || f < -(1<<53) {
		return nil, fmt.Errorf("number %s has no exact form", n)
	}
	text, err := json.Marshal(f)
	return append(b, text...), err
}

func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string is not UTF-8")
	}
	b = append(b, '"')
	from := 0 // the text behind it needs no escape so far
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			b = append(b, '\\', "btn_fr"[c-'\b'])
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(append(b, s[from:]...), '"'), nil
}
