package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"runtime"
	"strings"

	"github.com/dalsegno/segno"
)

// endpoint is one route of the API.
type endpoint struct {
	method, path, summary string
	name                  string       // the id of the operation in the OpenAPI document: the name of its method of Server
	params                reflect.Type // a struct; see bind
	result                reflect.Type // nil if the response is not JSON
	status                int          // the status of a successful response
	media                 string       // the media type of a response that is not JSON
	body                  string       // the media type of a body that the endpoint reads itself, or ""
	serve                 func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// get returns the endpoint of a read with a JSON result.
func get[P, R any](path, summary string, f func(*Server, context.Context, *P) (R, error)) endpoint {
	return handle(http.MethodGet, path, summary, http.StatusOK, f)
}

// handle returns an endpoint with a JSON result. The field Body of P, if there is one, is the
// request's body.
func handle[P, R any](method, path, summary string, status int, f func(*Server, context.Context, *P) (R, error)) endpoint {
	return endpoint{method: method, path: path, summary: summary, name: nameOf(f), status: status,
		params: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) error {
			p := new(P)
			if err := bind(r, p); err != nil {
				return err
			}
			if isUnchanged(w, r, p) {
				return nil
			}
			result, err := f(s, r.Context(), p)
			if err != nil {
				return err
			}
			return writeJSON(w, r, status, result)
		}}
}

// stream returns the endpoint of a read whose result is not JSON. f writes the response, or
// returns an error before it has written any of it.
func stream[P any](path, summary, media string, f func(*Server, http.ResponseWriter, *http.Request, *P) error) endpoint {
	return endpoint{method: http.MethodGet, path: path, summary: summary, name: nameOf(f), status: http.StatusOK, media: media, params: reflect.TypeFor[P](),
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) error {
			p := new(P)
			if err := bind(r, p); err != nil {
				return err
			}
			if isUnchanged(w, r, p) {
				return nil
			}
			return f(s, w, r, p)
		}}
}

// receive returns the endpoint of a POST that reads its body itself. f writes the response, or returns an error before it
// has written any of it. media is "" if the result is the JSON of an R.
func receive[R any](path, summary, body, media string, f func(*Server, http.ResponseWriter, *http.Request) error) endpoint {
	e := endpoint{method: http.MethodPost, path: path, summary: summary, name: nameOf(f), status: http.StatusOK, body: body, media: media,
		params: reflect.TypeFor[struct{}](), serve: f}
	if media == "" {
		e.result = reflect.TypeFor[R]()
	}
	return e
}

// nameOf returns the name of a method of Server, such as "listThreads".
func nameOf(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// maxBody is the largest size of a request's body, in bytes.
const maxBody = 1 << 20

// readBody decodes the JSON body of a request into v. It refuses unknown fields and any data
// after the document.
func readBody(r *http.Request, v any) error {
	if err := checkMedia(r, "application/json"); err != nil {
		return err
	}
	if err := decodeBody(r.Body, v); err != nil {
		return segno.NewError(segno.KindInvalid, "read request", "", err)
	}
	return nil
}

// checkMedia refuses a body of another type.
func checkMedia(r *http.Request, want string) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == want {
		return nil
	}
	return withStatus(http.StatusUnsupportedMediaType,
		segno.Errorf(segno.KindInvalid, "read request", "", "the body is not %s", want).WithHint("send Content-Type: "+want))
}

// decodeBody decodes one JSON document.
func decodeBody(body io.Reader, v any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("more than one JSON document")
		}
	}
	return err
}
