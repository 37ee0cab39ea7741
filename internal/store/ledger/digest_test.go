package ledger

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// fill sets all fields of v to values that are not zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"body":0, "x":"\"body\":0<&>\u2028"}`))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(`"body":0 <text> ` + v.Type().Name())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	}
}

// checkDigest compares the digest with that of package segno, by which earlier builds stored their commits.
func checkDigest(t *testing.T, c *segno.Commit) {
	t.Helper()
	want, wantErr := c.Digest()
	got, err := digest(c)
	if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Errorf("the digest is %s, %v instead of %s, %v", got, err, want, wantErr)
	}
}

// TestDigest computes the digests of a commit with all fields, of one with none, and of bodies in many forms.
func TestDigest(t *testing.T) {
	var c segno.Commit
	checkDigest(t, &c)
	fill(reflect.ValueOf(&c).Elem())
	checkDigest(t, &c)
	for _, body := range []string{"", " ", "0", "1e", "nul", `"a`, `{"a" : [1 , "b c" ]} `, `{"a":1}{`, `"\u003c"`, `"<"`, `" \" \\"`, "\"\xff\u2028\xe2\x80\"", `{"body":0}`} {
		c := segno.Commit{ID: "c", Thread: "t", Entries: []segno.Entry{{}, {Body: json.RawMessage(body)}, {Name: "n", Body: json.RawMessage(body)}, {Body: json.RawMessage(`{"body":0}`)}}}
		checkDigest(t, &c)
	}
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"a" : "b\u2028<", "body":0}`), []byte("1 "), `"body":0`)
	f.Fuzz(func(t *testing.T, one, two []byte, name string) {
		checkDigest(t, &segno.Commit{ID: segno.CommitID(name), Entries: []segno.Entry{{Name: name, Body: one}, {}, {ID: name, Body: two}}})
	})
}
