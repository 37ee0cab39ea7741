package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// parseCanonical reads into v the JSON that canonical writes for it, and nothing else: an
// unknown or repeated key, other white space or a second document is an error. V points to
// an empty value.
//
// The parser accepts every canonical document. It need not refuse all others, because
// parseCanonical writes v again and compares the bytes. So there is one document for each v.
func parseCanonical(data []byte, v any) error {
	text := string(data)
	p := &canonicalParser{form: canonicalForm{}, rest: text}
	if err := p.value(reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if p.rest != "" {
		return errors.New("there is more behind the document")
	}
	again, err := p.form.append(make([]byte, 0, len(text)), reflect.ValueOf(v))
	if err != nil {
		return err
	}
	if string(again) != text {
		return errors.New("the document is not in canonical form")
	}
	return nil
}

// maxElements bounds the elements of all lists of a document, and thereby the memory that a short
// document can ask for.
const maxElements = 1 << 20

// A canonicalParser reads a document from left to right. Strings without escapes share the
// document's memory.
type canonicalParser struct {
	form     canonicalForm
	rest     string
	elements int // of all lists so far
}

func (p *canonicalParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *canonicalParser) expect(c byte) error {
	if !p.take(c) {
		return fmt.Errorf("there is no %q where the document must have it", c)
	}
	return nil
}

func (p *canonicalParser) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		s, err := p.string()
		v.SetString(s)
		return err
	case reflect.Int, reflect.Int64:
		return p.int(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return p.value(v.Elem())
	case reflect.Slice:
		return p.list(v)
	case reflect.Struct:
		if p.form.knows(v.Type()) {
			return p.object(v)
		}
	}
	return json.Unmarshal([]byte(p.raw()), v.Addr().Interface())
}

func (p *canonicalParser) string() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	if i := strings.IndexByte(p.rest, '"'); i >= 0 && strings.IndexByte(p.rest[:i], '\\') < 0 {
		s := p.rest[:i]
		p.rest = p.rest[i+1:]
		return s, nil
	}
	p.rest = `"` + p.rest
	var s string
	err := json.Unmarshal([]byte(p.raw()), &s)
	return s, err
}

func (p *canonicalParser) int(v reflect.Value) error {
	n := 0
	for n < len(p.rest) && (p.rest[n] == '-' || '0' <= p.rest[n] && p.rest[n] <= '9') {
		n++
	}
	i, err := strconv.ParseInt(p.rest[:n], 10, 64)
	v.SetInt(i)
	p.rest = p.rest[n:]
	return err
}

func (p *canonicalParser) list(v reflect.Value) error {
	if err := p.expect('['); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	if p.take(']') {
		return nil
	}
	for n := 0; p.elements < maxElements; n++ {
		p.elements++
		v.Grow(1)
		v.SetLen(n + 1)
		if err := p.value(v.Index(n)); err != nil {
			return err
		}
		if !p.take(',') {
			return p.expect(']')
		}
	}
	return fmt.Errorf("the lists have more than %d elements", maxElements)
}

func (p *canonicalParser) object(v reflect.Value) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if p.take('}') {
		return nil
	}
	for _, f := range p.form.fields(v.Type()) {
		// The keys of a canonical document are in the order of the fields.
		rest, ok := strings.CutPrefix(p.rest, f.start)
		if !ok {
			continue
		}
		p.rest = rest
		if err := p.value(v.Field(f.index)); err != nil {
			return err
		}
		if !p.take(',') {
			return p.expect('}')
		}
	}
	return errors.New("a key is unknown, twice there or not in order")
}

// raw returns any value. It only matches brackets and strings; the caller parses the value.
func (p *canonicalParser) raw() string {
	depth, quoted := 0, false
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			raw := p.rest[:i]
			p.rest = p.rest[i:]
			return raw
		}
	}
	raw := p.rest
	p.rest = ""
	return raw
}
