package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

var update = flag.Bool("update", false, "write openapi.json")

// TestOpenAPIDescribesTheCode makes the document from the table of routes and the structs of their
// parameters and results, and compares it with the embedded one.
func TestOpenAPIDescribesTheCode(t *testing.T) {
	want, err := json.MarshalIndent(document(t), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(openAPI, want) {
		t.Error("openapi.json is stale; run 'go test ./internal/web -run OpenAPI -update'")
	}
}

// TestOpenAPIIsUsable checks the rules of linters that generators of clients depend on: each operation has a separate id
// and a summary, describes its refusals, and names each parameter of its path.
func TestOpenAPIIsUsable(t *testing.T) {
	var d struct {
		Paths map[string]map[string]struct {
			OperationID, Summary string
			Parameters           []struct{ Name, In string }
			Responses            map[string]any
		}
	}
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	isName, inPath := regexp.MustCompile(`^[a-z][A-Za-z]+$`), regexp.MustCompile(`\{([^}]+)\}`)
	seen := map[string]string{}
	for path, item := range d.Paths {
		for method, op := range item {
			at := method + " " + path
			if !isName.MatchString(op.OperationID) || seen[op.OperationID] != "" {
				t.Errorf("%s: the id %q is malformed, or that of %q", at, op.OperationID, seen[op.OperationID])
			}
			seen[op.OperationID] = at
			if op.Summary == "" || op.Responses["4XX"] == nil || op.Responses["default"] == nil {
				t.Errorf("%s has the summary %q and the responses %v", at, op.Summary, op.Responses)
			}
			for _, name := range inPath.FindAllStringSubmatch(path, -1) {
				if !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.In == "path" && p.Name == name[1] }) {
					t.Errorf("%s does not describe the parameter %s", at, name[1])
				}
			}
		}
	}
	if len(seen) != len(routes()) {
		t.Errorf("%d operations of %d routes", len(seen), len(routes()))
	}
}

type object = map[string]any

func document(t *testing.T) object {
	d := &describer{T: t, schemas: object{"Problem": schemaOf(t, reflect.TypeFor[wire.Problem]())}, names: map[string]reflect.Type{}}
	paths := object{}
	for _, e := range routes() {
		item, _ := paths[pathPattern(e.path)].(object)
		if item == nil {
			item = object{}
			paths[pathPattern(e.path)] = item
		}
		item[strings.ToLower(e.method)] = d.operation(&e)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "segno", "version": "1", "license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
			"description": "Threads, timelines and moves of a segno store. A release may add fields to results, and removes none."},
		"servers":  []any{object{"url": apiRoot}},
		"security": []any{object{"token": []string{}}},
		"paths":    paths,
		"components": object{"schemas": d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"Problem": object{"description": "An error.",
				"content": object{"application/problem+json": object{"schema": reference("Problem")}}}}},
	}
}

// pathPattern converts a path of the mux to OpenAPI's notation.
func pathPattern(path string) string { return strings.ReplaceAll(path, "...}", "}") }

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// describer makes the descriptions of routes and collects the schemas of their types.
type describer struct {
	*testing.T
	schemas object
	names   map[string]reflect.Type
}

func (d *describer) operation(e *endpoint) object {
	content := object{}
	switch {
	case e.result != nil:
		content["application/json"] = object{"schema": reference(d.schema(e.result))}
	case e.media != "":
		content[e.media] = object{}
	}
	problem := object{"$ref": "#/components/responses/Problem"}
	op := object{"operationId": e.name, "summary": e.summary, "responses": object{
		strconv.Itoa(e.status): object{"description": http.StatusText(e.status), "content": content},
		"4XX":                  problem,
		"default":              problem,
	}}
	if e.body != "" {
		op["requestBody"] = object{"required": true, "content": object{e.body: object{}}}
	}
	parameters := []any{}
	for _, f := range reflect.VisibleFields(e.params) {
		switch {
		case f.Anonymous:
		case f.Name == "Body":
			op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": reference(d.schema(f.Type))}}}
		default:
			parameters = append(parameters, parameter(f))
		}
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	return op
}

func parameter(f reflect.StructField) object {
	in, name := location(f)
	kind := f.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	schema := object{"type": "string"}
	if values := strings.Fields(f.Tag.Get("enum")); len(values) > 0 {
		schema["enum"] = values
	}
	if kind.Kind() != reflect.String {
		schema = object{"type": "integer", "minimum": limit(f, "min", 0)}
		if most := f.Tag.Get("max"); most != "" {
			schema["maximum"] = limit(f, "max", 0)
		}
		if text := f.Tag.Get("default"); text != "" {
			schema["default"] = limit(f, "default", 0)
		}
	}
	p := object{"name": name, "in": in, "schema": schema}
	if in == "path" || f.Tag.Get("required") == "true" {
		p["required"] = true
	}
	return p
}

var notLetter = regexp.MustCompile(`[^A-Za-z0-9]+`)

// schema adds the schema of a type, and returns its name.
func (d *describer) schema(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := notLetter.ReplaceAllString(t.String(), "_")
	if d.names[name] == nil {
		d.names[name] = t
		d.schemas[name] = schemaOf(d.T, t)
	}
	return name
}

// schemaOf returns the schema of a type by reflection. It has its own descriptions of the types
// that implement MarshalJSON.
func schemaOf(t *testing.T, typ reflect.Type) *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	s, err := jsonschema.ForType(typ, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[segno.Hash]():      text,
		reflect.TypeFor[segno.Kind]():      text,
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[diffLine]():        {Type: "array", Description: "[op, old, new, text, ranges, bytes]"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	open(s)
	return s
}

// open allows further fields in objects, because a release may add some. It does not allow null
// instead of a list, because the server does not write that.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = nil
	if len(s.Types) == 2 && s.Types[0] == "null" && s.Types[1] == "array" {
		s.Type, s.Types = "array", nil
	}
	open(s.Items)
	for _, p := range s.Properties {
		open(p)
	}
}
