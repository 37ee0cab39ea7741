package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdJSON checks values in the single JSON document that the last program printed.
//
//	json PATH VALUE            the value: a string as it is, else as JSON
//	json -match PATH PATTERN   the value matches
//	json -type PATH TYPE       null, bool, int, number, string, array or object
//	json -keys PATH 'A B C'    the object has all these fields
//	json -set NAME PATH        the value becomes $NAME
//
// A VALUE cannot contain a line break, because a script has one command on a line: compare such a string with -match and
// the pattern (?s). With -err, it reads standard error. A PATH is a list of fields and indexes, separated by dots.
// FIELD=VALUE selects elements of an array, '*' applies the next steps to each element, and len is
// the number of elements. '.' is the document.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	from := "stdout"
	if len(args) > 0 && args[0] == "-err" {
		from, args = "stderr", args[1:]
	}
	op := "-is"
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		op, args = args[0], args[1:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: json [-err] [-match|-type|-keys|-set] ARG ARG")
	}
	doc, err := oneDocument(ts.ReadFile(from))
	if err != nil {
		ts.Fatalf("%s is not one JSON document: %v", from, err)
	}
	path, want := args[0], args[1]
	if op == "-set" {
		path, want = args[1], args[0]
	}
	value, err := look(doc, path)
	if err != nil {
		ts.Fatalf("json %s: %v", path, err)
	}
	var ok bool
	switch op {
	case "-is":
		ok = render(value) == want
	case "-match":
		ok = regexp.MustCompile(want).MatchString(render(value))
	case "-type":
		ok = slices.Contains(typesOf(value), want)
	case "-keys":
		object, _ := value.(map[string]any)
		ok = object != nil
		for _, key := range strings.Fields(want) {
			if _, has := object[key]; !has {
				ts.Logf("no field %q", key)
				ok = false
			}
		}
	case "-set":
		ts.Setenv(want, render(value))
		return
	default:
		ts.Fatalf("json: unknown %s", op)
	}
	if ok == neg {
		ts.Fatalf("json %s is %s, want %s %s (not: %v)", path, render(value), op, want, neg)
	}
}

func oneDocument(text string) (doc any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows it")
	}
	return doc, nil
}

func look(value any, path string) (any, error) {
	if path == "." || path == "" {
		return value, nil
	}
	step, rest, _ := strings.Cut(path, ".")
	switch v := value.(type) {
	case map[string]any:
		next, ok := v[step]
		if !ok {
			return nil, fmt.Errorf("no field %q", step)
		}
		return look(next, rest)
	case []any:
		if step == "len" {
			return json.Number(strconv.Itoa(len(v))), nil
		}
		if step == "*" {
			return each(v, rest)
		}
		if field, want, ok := strings.Cut(step, "="); ok {
			return look(choose(v, field, want), rest)
		}
		i, err := strconv.Atoi(step)
		if err != nil || i >= len(v) {
			return nil, fmt.Errorf("no element %q of %d", step, len(v))
		}
		return look(v[i], rest)
	}
	return nil, fmt.Errorf("%s has no %q", render(value), step)
}

func each(list []any, path string) (any, error) {
	all := []any{}
	for _, e := range list {
		v, err := look(e, path)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func choose(list []any, field, want string) []any {
	chosen := []any{}
	for _, e := range list {
		if v, err := look(e, field); err == nil && render(v) == want {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

func render(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func typesOf(value any) []string {
	switch v := value.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"bool"}
	case string:
		return []string{"string"}
	case []any:
		return []string{"array"}
	case map[string]any:
		return []string{"object"}
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return []string{"int", "number"}
		}
		return []string{"number"}
	}
	return nil
}
