package s3

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/buckettest"
)

var _ postgres.Bucket = (*Bucket)(nil)

// gateway is the S3 server of all tests except those that kill a server.
var gateway *serverrig.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if !soak.IsWhole() {
		os.Exit(m.Run())
	}
	var err error
	if gateway, err = serverrig.S3(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := gateway.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// hasGateway reports whether the run has a gateway: it is built from the network, which takes minutes, so only runs of whole
// suites have one.
func hasGateway() bool { return gateway != nil }

// environment returns a function like os.Getenv for some variables.
func environment(variables ...string) func(string) string {
	return func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// testOptions are options with which a test that takes long on a busy machine still passes.
func testOptions() Options {
	return Options{Getenv: environment(serverrig.S3Env()...), Patience: 5 * time.Minute, Idle: 5 * time.Minute}
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses.
func newPrefix() string { return fmt.Sprintf("test/%d", prefixes.Add(1)) }

// bucketURL returns the URL of a prefix in a gateway, or in a proxy before one.
func bucketURL(endpoint, prefix string) string {
	return "s3://" + serverrig.S3Bucket + "/" + prefix + "?region=us-east-1&endpoint=" + url.QueryEscape(endpoint)
}

func open(t *testing.T, where string, o Options) *Bucket {
	t.Helper()
	b, err := OpenWith(t.Context(), where, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBucket(t *testing.T) {
	if !hasGateway() {
		return
	}
	o := testOptions()
	o.page = 7
	buckettest.Test(t, func(t *testing.T) postgres.Bucket {
		return open(t, bucketURL("http://"+gateway.Addr, newPrefix()), o)
	}, buckettest.Options{Page: o.page, Another: func(t *testing.T, of postgres.Bucket) postgres.Bucket {
		return open(t, bucketURL("http://"+gateway.Addr, strings.TrimSuffix(of.(*Bucket).prefix, "/")), o)
	}})
}

// TestOpen verifies that a bucket that cannot be used is an error of Open, with a kind and a hint.
func TestOpen(t *testing.T) {
	if !hasGateway() {
		return
	}
	o := testOptions()
	for name, c := range map[string]struct {
		where string
		env   []string
		kind  segno.Kind
		want  string
	}{
		"another bucket": {strings.Replace(gateway.URL, "s3://segno", "s3://other", 1), serverrig.S3Env(), segno.KindNotFound, "NoSuchBucket"},
		"a wrong secret": {gateway.URL, []string{"AWS_ACCESS_KEY_ID=" + serverrig.S3Key, "AWS_SECRET_ACCESS_KEY=wr0ngsecret"}, segno.KindRefused, "SignatureDoesNotMatch"},
		"a wrong user":   {gateway.URL, []string{"AWS_ACCESS_KEY_ID=unknown", "AWS_SECRET_ACCESS_KEY=wr0ngsecret"}, segno.KindRefused, "access key"},
		"no keys":        {gateway.URL, nil, segno.KindInvalid, "no keys"},
		"half a key":     {gateway.URL, []string{"AWS_SECRET_ACCESS_KEY=wr0ngsecret"}, segno.KindInvalid, "one half"},
		"another region": {strings.Replace(gateway.URL, "us-east-1", "eu-west-3", 1), serverrig.S3Env(), segno.KindInvalid, "region"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Getenv = environment(append(c.env, "HOME="+t.TempDir())...)
			_, err := OpenWith(t.Context(), c.where, o)
			var known *segno.Error
			if segno.KindOf(err) != c.kind || !errors.As(err, &known) || known.Hint == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v (%v); want %v with %q and a hint", err, segno.KindOf(err), c.kind, c.want)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "wr0ng") || strings.Contains(text, serverrig.S3Secret) || strings.Contains(text, "\n") {
				t.Errorf("the error has a key, or several lines: %s", text)
			}
		})
	}
}
