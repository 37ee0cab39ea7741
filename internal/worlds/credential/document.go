package credential

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// document is a JSON object with its members in order, each as the bytes of the file.
type document struct{ members []member }

type member struct {
	name       string // the decoded key
	key, value []byte // the raw text of the key without quotes, and the raw value
}

var (
	errNotObject = errors.New("it is not one JSON object")
	errTwice     = errors.New("a JSON object has a key twice")
)

// parse parses a document. Its errors contain no part of data, which is secret.
func parse(data []byte) (document, error) {
	if !utf8.Valid(data) || !jsonscan.Valid(data) {
		return document{}, errNotObject
	}
	return object(data[jsonscan.SkipSpace(data, 0):])
}

// object parses an object in valid JSON.
func object(data []byte) (d document, err error) {
	if len(data) == 0 || data[0] != '{' {
		return d, errNotObject
	}
	_, ok := jsonscan.Members(data, 0, func(key []byte, value jsonscan.Span) {
		m := member{name: jsonscan.Unescape(key), key: key, value: value.Of(data)}
		if d.find(m.name) != nil {
			err = errTwice
		}
		d.members = append(d.members, m)
	})
	if !ok {
		err = errNotObject
	}
	return d, err
}

// find returns the value of a member, or nil.
func (d *document) find(name string) []byte {
	if i := d.index(name); i >= 0 {
		return d.members[i].value
	}
	return nil
}

func (d *document) index(name string) int {
	return slices.IndexFunc(d.members, func(m member) bool { return m.name == name })
}

// set replaces the value of a member of the same name, or adds m.
func (d *document) set(m member) {
	if i := d.index(m.name); i >= 0 {
		d.members[i].value = m.value
		return
	}
	d.members = append(d.members, m)
}

// copy sets the member with a name to that of another document, if that document has one.
func (d *document) copy(name string, from *document) {
	if i := from.index(name); i >= 0 {
		d.set(from.members[i])
		return
	}
	d.members = slices.DeleteFunc(d.members, func(m member) bool { return m.name == name })
}

// bytes returns the document as JSON.
func (d *document) bytes() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range d.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.Write(m.key)
		b.WriteString("\":")
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// isEmpty reports whether a value contains no login.
func isEmpty(value []byte) bool {
	switch string(value) {
	case "", "null", `""`:
		return true
	}
	return value[0] == '{' && value[jsonscan.SkipSpace(value, 1)] == '}'
}

// readExpiry returns a login's expiry, in the unit of its form.
func readExpiry(e profile.Expiry, data []byte) (at float64, known bool) {
	value := jsonscan.Find(data, jsonscan.Span{To: len(data)}, e.Path...).Of(data)
	if len(value) == 0 {
		return 0, false
	}
	switch e.Form {
	case profile.JWT:
		return jwtExpiry(jsonscan.Text(value))
	case profile.Date:
		t, err := time.Parse(time.RFC3339, jsonscan.Text(value))
		return float64(t.UnixNano()), err == nil
	}
	return finite(value)
}

// finite parses a finite number.
func finite(value []byte) (float64, bool) {
	at, err := strconv.ParseFloat(string(value), 64)
	return at, err == nil && !math.IsNaN(at) && !math.IsInf(at, 0)
}

// jwtExpiry returns the expiry of a token. It does not check the signature, because the token
// comes from a file of the user and the expiry only serves for a comparison.
func jwtExpiry(token string) (float64, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0, false
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || !jsonscan.Valid(claims) {
		return 0, false
	}
	return finite(jsonscan.Find(claims, jsonscan.Span{To: len(claims)}, "exp").Of(claims))
}
