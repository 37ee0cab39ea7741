package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// maxAnswer limits the size of a response that is not a list.
const maxAnswer = 256 << 20

// maxProblem limits how much of an error response is read.
const maxProblem = 1 << 20

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// rawBody is a body that is not JSON.
type rawBody []byte

// send sends a request and returns the response if it is not an error. path is escaped. The caller closes the body.
func (s *Store) send(ctx context.Context, op, name, method, path string, q url.Values, body any, headers ...string) (*http.Response, error) {
	u := *s.base
	escaped := u.EscapedPath() + path
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, op, name, err)
	}
	u.Path, u.RawPath, u.RawQuery = plain, escaped, q.Encode()
	media := "application/octet-stream"
	raw, isRaw := body.(rawBody)
	text := []byte(raw)
	if body != nil && !isRaw {
		media = "application/json"
		encoded, err := segno.Encode(body)
		if err != nil {
			return nil, segno.NewError(segno.KindInvalid, op, name, err)
		}
		text = encoded
	}
	limit := s.silence
	if path == movesPath || path == previewsPath {
		limit = s.moveSilence
	}
	watched, silence := watchSilence(ctx, limit)
	r, err := http.NewRequestWithContext(watched, method, u.String(), sentBody{bytes.NewReader(text), silence})
	if err != nil {
		silence.stop()
		return nil, segno.NewError(segno.KindInvalid, op, name, err)
	}
	if r.ContentLength = int64(len(text)); len(text) == 0 {
		r.Body = http.NoBody
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(sentBody{bytes.NewReader(text), silence}), nil }
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.http.Do(r)
	if err != nil {
		silence.stop()
		return nil, failed(ctx, op, name, withSilence(watched, err))
	}
	silence.answer()
	res.Body = receivedBody{res.Body, watched, silence}
	if res.StatusCode >= http.StatusMultipleChoices {
		defer res.Body.Close()
		return nil, problemOf(op, name, res)
	}
	return res, nil
}

// problemOf returns the error of a response. A response to HEAD has no body.
func problemOf(op, name string, res *http.Response) error {
	var p wire.Problem
	data, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err == nil && json.Unmarshal(data, &p) == nil && p.Detail != "" {
		err := p.Err()
		if e := (*segno.Error)(nil); res.StatusCode == http.StatusUnauthorized && errors.As(err, &e) {
			// The hint of the server is for a browser.
			return e.WithHint("use a token that 'segno serve token add' made on the server, or that of the address that the server printed when it was started last")
		}
		return err
	}
	kind := segno.KindIO
	switch res.StatusCode {
	case http.StatusNotFound:
		kind = segno.KindNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		kind = segno.KindRefused
	}
	if res.StatusCode < http.StatusBadRequest {
		return segno.Errorf(segno.KindRefused, op, name, "the server answered %s and names another address", res.Status).
			WithHint("give the address of the server itself; the token is for that one alone")
	}
	return segno.Errorf(kind, op, name, "the server answered %s", res.Status)
}

// failed returns the error of a request that got no response or only a part of one.
func failed(ctx context.Context, op, name string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return segno.NewError(segno.KindCancelled, op, name, cause)
	}
	var u *url.Error
	if errors.As(err, &u) { // its text has the address
		err = u.Err
	}
	if _, isSilent := errors.AsType[silentError](err); isSilent {
		return segno.NewError(segno.KindIO, op, name, err).
			WithHint("check that the address is that of a segno server and that it is not overloaded, then try again")
	}
	return segno.NewError(segno.KindIO, op, name, err).WithHint("check that the server runs")
}

// read reads a JSON response into v.
func (s *Store) read(ctx context.Context, op, name, path string, q url.Values, v any) error {
	return s.call(ctx, op, name, http.MethodGet, path, q, nil, v)
}

// call sends a request and reads the JSON of the response into v.
func (s *Store) call(ctx context.Context, op, name, method, path string, q url.Values, body, v any, headers ...string) error {
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer s.calls.End()
	res, err := s.send(ctx, op, name, method, path, q, body, headers...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(v); err != nil {
		return failed(ctx, op, name, err)
	}
	return nil
}

// decoded adds the kind and the name of a record to an error about its form.
func decoded[T any](op, name string) func(T, error) (T, error) {
	return func(x T, err error) (T, error) {
		if err != nil {
			return x, segno.NewError(segno.KindCorrupt, op, name, err)
		}
		return x, nil
	}
}

// query lists the records that a query of the store selects.
func query[T any](ctx context.Context, s *Store, op, path string, q any, decode func(*wire.Item) (T, error)) iter.Seq2[T, error] {
	text, err := segno.Encode(q)
	if err != nil {
		return func(yield func(T, error) bool) {
			yield(*new(T), segno.NewError(segno.KindInvalid, op, "", err))
		}
	}
	return list(ctx, s, op, "", path, url.Values{"q": {string(text)}}, decode)
}

// list reads a list of records and yields each one as it arrives.
func list[T any](ctx context.Context, s *Store, op, name, path string, q url.Values, decode func(*wire.Item) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fail := func(err error) { yield(*new(T), err) }
		if err := s.calls.Begin(ctx, op); err != nil {
			fail(err)
			return
		}
		defer s.calls.End()
		res, err := s.send(ctx, op, name, http.MethodGet, path, q, nil)
		if err != nil {
			fail(err)
			return
		}
		defer res.Body.Close()
		d := json.NewDecoder(res.Body)
		for {
			var i wire.Item
			err := d.Decode(&i)
			switch {
			case err == io.EOF:
				fail(failed(ctx, op, name, io.ErrUnexpectedEOF)) // the list has no end
				return
			case err != nil:
				fail(failed(ctx, op, name, err))
				return
			case i.End:
				return
			case i.Problem != nil:
				fail(i.Problem.Err())
				return
			}
			if x, err := decoded[T](op, i.ID)(decode(&i)); !yield(x, err) || err != nil {
				return
			}
		}
	}
}
