package acp

import (
	"encoding/json"
	"strings"
	"testing"
)

// validTexts are values, what is nearly one, and nesting at the limit.
func validTexts() []string {
	texts := []string{"", " ", "null", "nul", "true ", "falsey", `"a"`, `"a`, `"\u00e9\n\/"`, `"\u00g9"`, `"\x"`, "\"\x01\"", "\"\xff\"", `"\`,
		"0", "-0", "01", "-", "1.", "1.5e+3", "1e", "1E-", ".5", "+1", "1 2", "{}", "[ ]", "[1,]", "[,1]", `{"a":1,}`, `{"a" : [ {"b":null} ] }`,
		`{"a"}`, `{a:1}`, `{"a":1 "b":2}`, "[1 2]", "}", "]", "[}", "{]", "\v1", "\u00a01"}
	for _, depth := range []int{9999, 10000, 10001} {
		texts = append(texts, strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat("[", depth-1)+"1"+strings.Repeat("]", depth-1),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	return texts
}

func TestValid(t *testing.T) {
	for _, text := range validTexts() {
		if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.40q: %v, encoding/json says %v", text, got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range validTexts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := valid(text), json.Valid(text); got != want {
			t.Errorf("%q: %v, encoding/json says %v", text, got, want)
		}
	})
}
