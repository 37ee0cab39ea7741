package web

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// bind decodes the parameters of a request into the struct that p points to. A field has one of
// the tags path, query and header with the name of its parameter; bind treats a struct without a
// tag as embedded. It decodes the request's body into the field Body. A number can have the tags
// default, min and max. A string can have required, max, its largest length in bytes, and enum, its values, separated by spaces. A
// pointer is nil if the parameter is absent. An unknown query parameter is an error, so that a
// misspelled one does not go unnoticed.
func bind(r *http.Request, p any) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "read request", "", "malformed query")
	}
	known := map[string]bool{}
	v := reflect.ValueOf(p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		if f.Name == "Body" {
			if err := readBody(r, v.FieldByIndex(f.Index).Addr().Interface()); err != nil {
				return err
			}
			continue
		}
		in, name := location(f)
		var values []string
		switch in {
		case "path":
			values = []string{r.PathValue(name)}
		case "query":
			values, known[name] = query[name], true
		case "header":
			values = r.Header.Values(name)
		}
		if len(values) > 1 {
			return invalidParameter(name, "given more than once")
		}
		if err := bindField(v.FieldByIndex(f.Index), f, name, values); err != nil {
			return err
		}
	}
	for name := range query {
		if !known[name] {
			return invalidParameter(name, "unknown parameter")
		}
	}
	return nil
}

func invalidParameter(name, why string) error {
	return segno.Errorf(segno.KindInvalid, "read request", "", "parameter %q: %s", name, why)
}

// location returns the kind of a parameter, such as "query", and its name.
func location(f reflect.StructField) (in, name string) {
	for _, in := range []string{"path", "query", "header"} {
		if name := f.Tag.Get(in); name != "" {
			return in, name
		}
	}
	panic("web: internal error: the parameter " + f.Name + " has no location")
}

// bindField sets a field to the value of a parameter, or to its default if the request lacks it.
func bindField(v reflect.Value, f reflect.StructField, name string, values []string) error {
	text := f.Tag.Get("default")
	if len(values) == 1 {
		text = values[0]
	}
	if text == "" && len(values) == 0 {
		if f.Tag.Get("required") == "true" {
			return invalidParameter(name, "missing")
		}
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return bindString(v, f, name, text)
	case reflect.Int, reflect.Int64:
		return bindInt(v, f, name, text)
	default:
		panic("web: internal error: the parameter " + name + " has the type " + v.Type().String())
	}
}

func bindString(v reflect.Value, f reflect.StructField, name, text string) error {
	if !utf8.ValidString(text) {
		return invalidParameter(name, "not UTF-8")
	}
	if most := limit(f, "max", 64<<10); int64(len(text)) > most {
		return invalidParameter(name, fmt.Sprintf("longer than %d bytes", most))
	}
	if values := strings.Fields(f.Tag.Get("enum")); text != "" && len(values) > 0 && !slices.Contains(values, text) {
		return invalidParameter(name, "not one of "+strings.Join(values, ", "))
	}
	v.SetString(text)
	return nil
}

func bindInt(v reflect.Value, f reflect.StructField, name, text string) error {
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil {
		return invalidParameter(name, "not a number")
	}
	if least := limit(f, "min", 0); n < least {
		return invalidParameter(name, fmt.Sprintf("less than %d", least))
	}
	if most := limit(f, "max", 1<<53); n > most {
		return invalidParameter(name, fmt.Sprintf("more than %d", most))
	}
	v.SetInt(n)
	return nil
}

// limit returns the number in a tag of a field, or other if the field has no such tag.
func limit(f reflect.StructField, tag string, other int64) int64 {
	if n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64); err == nil {
		return n
	}
	return other
}
