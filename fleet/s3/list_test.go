package s3

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno"
)

// TestAListThatDoesNotContinue lists from a server that gives the same token with each page. A collection of garbage would read its
// pages without end.
func TestAListThatDoesNotContinue(t *testing.T) {
	var pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := "a"
		if pages.Add(1) > 2 {
			token = "b"
		}
		fmt.Fprintf(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>
			<Contents><Key>p/segno/%s</Key></Contents></ListBucketResult>`, token, r.URL.Query().Get("continuation-token"))
	}))
	defer server.Close()
	o := testOptions()
	b := open(t, "s3://bucket/p?region=us-east-1&endpoint="+server.URL, o)
	var names []string
	var err error
	for name, problem := range b.List(t.Context(), "segno/") {
		if err = problem; err == nil {
			names = append(names, name)
		}
		if len(names) > 10 {
			t.Fatalf("the list has no end: %q", names)
		}
	}
	if segno.KindOf(err) != segno.KindIO || !slices.Equal(names, []string{"segno/", "segno/a", "segno/b"}) {
		t.Errorf("the list is %q, %v", names, err)
	}
}
