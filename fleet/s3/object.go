package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// hashHeader is the header of an object with the SHA-256 of its bytes, which Get verifies.
const hashHeader = "X-Amz-Meta-Segno-Sha256"

// maxObject limits the memory for an object whose length a server invents. It is Amazon's limit for one put.
const maxObject = 5 << 30

// maxMismatches is after how many wrong checksums an object counts as damaged. Before, the transfer may be at fault.
const maxMismatches = 3

// errDamaged marks an object whose bytes are not those that were put.
var errDamaged = errors.New("its checksum is wrong")

// Put writes an object and returns when the server has acknowledged it. The request has a signed hash of the bytes, which
// the server verifies. If the name exists, the error wraps [fs.ErrExist].
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	hash := hexHash(data)
	if b.isUnconditional.Load() {
		return b.putChecked(ctx, name, hash, data)
	}
	attempts, err := b.put(ctx, name, hash, data, true)
	switch {
	case isStatus(err, http.StatusNotImplemented):
		b.isUnconditional.Store(true)
		return b.putChecked(ctx, name, hash, data)
	case !isStatus(err, http.StatusPreconditionFailed):
		return err
	case attempts > 1: // the object may be that of an attempt whose acknowledgement was lost
		if stored, err := b.hashOf(ctx, name); err == nil && stored == hash {
			return nil
		} else if err != nil {
			return err
		}
	}
	return &fs.PathError{Op: "put", Path: name, Err: fs.ErrExist}
}

// putChecked puts an object in a server without conditional writes. Between the check and the put another process could
// put the same name, but the names of a store are unique.
func (b *Bucket) putChecked(ctx context.Context, name, hash string, data []byte) error {
	switch _, err := b.hashOf(ctx, name); {
	case err == nil:
		return &fs.PathError{Op: "put", Path: name, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	_, err := b.put(ctx, name, hash, data, false)
	return err
}

func (b *Bucket) put(ctx context.Context, name, hash string, data []byte, onlyNew bool) (attempts int, err error) {
	header := map[string]string{hashHeader: hash, "Content-Type": "application/octet-stream"}
	if onlyNew {
		header["If-None-Match"] = "*"
	}
	return b.send(ctx, request{method: http.MethodPut, object: b.prefix + name, header: header, body: data, read: discard})
}

// discard reads an answer to its end, so that its connection can be used again.
func discard(r *http.Response) error {
	_, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxErrorBody))
	return err
}

func isStatus(err error, status int) bool {
	var refusal *statusError
	return errors.As(err, &refusal) && refusal.status == status
}

// hashOf returns the hash in an object's metadata. The error wraps [fs.ErrNotExist] if the object does not exist.
func (b *Bucket) hashOf(ctx context.Context, name string) (hash string, err error) {
	_, err = b.send(ctx, request{method: http.MethodHead, object: b.prefix + name, read: func(r *http.Response) error {
		hash = r.Header.Get(hashHeader)
		return nil
	}})
	if isStatus(err, http.StatusNotFound) { // the answer has no body with the reason
		err = &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return hash, err
}

// Get returns an object. The error wraps [fs.ErrNotExist] if the object does not exist, and has [segno.KindCorrupt] if its
// bytes are not those that were put.
func (b *Bucket) Get(ctx context.Context, name string) (data []byte, err error) {
	mismatches := 0
	_, err = b.send(ctx, request{method: http.MethodGet, object: b.prefix + name, read: func(r *http.Response) error {
		if data, err = io.ReadAll(io.LimitReader(r.Body, maxObject)); err != nil {
			return fmt.Errorf("%w: %w", errTransfer, err)
		}
		// An object that another program copied may have lost its metadata. The store verifies its records itself.
		if want := r.Header.Get(hashHeader); want == "" || hexHash(data) == want {
			return nil
		}
		if mismatches++; mismatches < maxMismatches {
			return errTransfer
		}
		return errDamaged
	}})
	var refusal *statusError
	switch {
	case err == nil:
		return data, nil
	case errors.As(err, &refusal) && refusal.Code == "NoSuchKey":
		err = &fs.PathError{Op: "get", Path: name, Err: fs.ErrNotExist}
	case errors.Is(err, errDamaged):
		err = segno.NewError(segno.KindCorrupt, "get object", name, err)
	}
	return nil, err
}

// Delete removes an object. It returns nil if the object does not exist.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	_, err := b.send(ctx, request{method: http.MethodDelete, object: b.prefix + name, read: discard})
	var refusal *statusError
	if errors.As(err, &refusal) && refusal.Code == "NoSuchKey" {
		return nil
	}
	return err
}

// List yields the names that begin with prefix, in the order of their bytes. It requests them page by page.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for next := ""; ; {
			page, err := b.listPage(ctx, b.prefix+prefix, next, b.options.page)
			if err != nil {
				yield("", err)
				return
			}
			for _, o := range page.Contents {
				name, ok := strings.CutPrefix(o.Key, b.prefix)
				if !ok || !strings.HasPrefix(name, prefix) {
					yield("", segno.Errorf(segno.KindIO, "list bucket", b.name, "the server lists a name without the prefix"))
					return
				}
				if !yield(name, nil) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			if page.Next == "" || page.Next == next { // the same token again would list the same page, without end
				yield("", segno.Errorf(segno.KindIO, "list bucket", b.name, "the server does not say how the list continues"))
				return
			}
			next = page.Next
		}
	}
}

// listing is one page of a list.
type listing struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	Next        string `xml:"NextContinuationToken"`
	Contents    []struct{ Key string }
}

// listPage returns the page of a list after next. most limits its length; 0 means the server's own limit.
func (b *Bucket) listPage(ctx context.Context, prefix, next string, most int) (page listing, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
	if next != "" {
		query.Set("continuation-token", next)
	}
	if most > 0 {
		query.Set("max-keys", strconv.Itoa(most))
	}
	_, err = b.send(ctx, request{method: http.MethodGet, query: query, read: func(r *http.Response) error {
		page = listing{}
		if err := xml.NewDecoder(r.Body).Decode(&page); err != nil {
			return fmt.Errorf("%w: %w", errTransfer, err)
		}
		for i, o := range page.Contents {
			key, err := url.QueryUnescape(o.Key)
			if err != nil {
				return fmt.Errorf("%w: a name is malformed", errTransfer)
			}
			page.Contents[i].Key = key
		}
		return nil
	}})
	return page, err
}
