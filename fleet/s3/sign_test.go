package s3

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestSign checks signatures against the examples in Amazon's documentation of Signature Version 4.
func TestSign(t *testing.T) {
	c := Credentials{Key: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	now := time.Date(2013, time.May, 24, 0, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		method, path string
		query        url.Values
		header       map[string]string
		body, want   string
	}{
		{"GET", "/test.txt", nil, map[string]string{"Range": "bytes=0-9"}, "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test$file.text", nil, map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY"},
			"Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/", url.Values{"max-keys": {"2"}, "prefix": {"J"}}, nil, "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		u := url.URL{Scheme: "https", Host: "examplebucket.s3.amazonaws.com", Path: e.path, RawPath: escape(e.path, "/"), RawQuery: encodeQuery(e.query)}
		r, err := http.NewRequestWithContext(t.Context(), e.method, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range e.header {
			r.Header.Set(name, value)
		}
		sign(r, []byte(e.body), c, "us-east-1", now)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, ", Signature="+e.want) {
			t.Errorf("%s %s: %s\nwant the signature %s", e.method, e.path, got, e.want)
		}
	}
}
