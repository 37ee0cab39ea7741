// Package s3 is a bucket for the bodies of store/postgres on a server that speaks the protocol of Amazon S3, such as
// Amazon S3 itself, MinIO, Ceph, Cloudflare R2 or versitygw.
//
//	bucket, err := s3.Open(ctx, "s3://agents/production?region=eu-central-1")
//	store, err := postgres.Open(ctx, url, postgres.Options{Bucket: bucket})
//
// It needs no other module. A program whose machine has a role instead of keys sets [Options.Credentials], or uses
// store/postgres/gocloud, which knows Amazon's other ways to sign in.
//
// The user needs the permissions to put, get and delete the objects below the prefix and to list the bucket. The
// bucket needs no versions and no rule that deletes objects; the store deletes the ones that it no longer needs.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
)

// Options configure how a bucket is opened. The zero Options are valid.
type Options struct {
	// Credentials returns the keys for a request. nil reads them from the environment or from a file; see [Open].
	// It is called for each request, so it should keep keys that are valid for some time.
	Credentials func(ctx context.Context) (Credentials, error)
	// Client sends the requests; nil is a client without redirects. The bucket limits the time of a request itself.
	Client *http.Client
	// Patience is how long a call retries while the server fails or cannot be reached; 0 means 30 seconds. The end
	// of the call's context ends it earlier.
	Patience time.Duration
	// Idle is how long a request may take without a byte sent or received; 0 means 20 seconds. The call then
	// retries.
	Idle time.Duration
	// Getenv reads a variable of the environment; nil means os.Getenv.
	Getenv func(string) string

	// Clock returns the time for signatures; nil means time.Now. If the server rejects it, its own time is used.
	Clock func() time.Time

	page  int           // of a list; 0 is the server's maximum
	pause time.Duration // before the first retry
}

// Credentials are the keys of a user. Session is the token of temporary keys, or "".
type Credentials struct{ Key, Secret, Session string }

// Bucket is a bucket, or the part of one below a prefix. It implements Bucket of store/postgres. All methods may be
// called concurrently.
type Bucket struct {
	name     string // for messages: it contains no parameter
	endpoint *url.URL
	path     string // of the bucket, with "/" at its end, if the host does not name it
	prefix   string // of all names, with "/" at its end, or ""
	region   string
	profile  string
	options  Options

	// skew is the server's time minus ours, in nanoseconds, when the server rejected a request because of it; 0 before.
	skew atomic.Int64
	// isUnconditional is set once the server has rejected the condition of a Put.
	isUnconditional atomic.Bool
}

// Open opens a bucket that exists, and checks that it can be listed. The URL is s3://BUCKET or s3://BUCKET/PREFIX
// with these parameters:
//
//	endpoint=URL   the server; the default is $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL or Amazon S3
//	region=NAME    the default is $AWS_REGION, $AWS_DEFAULT_REGION or us-east-1
//	profile=NAME   the section of the file with credentials; the default is $AWS_PROFILE or default
//
// A URL never contains a key. Keys are in $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY and $AWS_SESSION_TOKEN, or in the
// file that $AWS_SHARED_CREDENTIALS_FILE names, by default ~/.aws/credentials. A profile in the URL takes precedence
// over keys in the environment. They are read for each request, so they may be replaced while the program runs.
func Open(ctx context.Context, where string) (*Bucket, error) {
	return OpenWith(ctx, where, Options{})
}

// OpenWith is [Open] with options.
func OpenWith(ctx context.Context, where string, o Options) (*Bucket, error) {
	b, err := parse(where, o.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (o Options) withDefaults() Options {
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Idle = cmp.Or(o.Idle, 20*time.Second)
	o.pause = cmp.Or(o.pause, 50*time.Millisecond)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 16
		transport.DisableCompression = true // an object has the bytes that were put
		o.Client = &http.Client{Transport: transport}
	}
	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the signature is for one host
	o.Client = &client
	return o
}

// String returns the URL without its parameters.
func (b *Bucket) String() string { return b.name }

// Close closes the idle connections.
func (b *Bucket) Close() error {
	b.options.Client.CloseIdleConnections()
	return nil
}

const opOpen = "open bucket"

func invalid(name, hint, format string, args ...any) error {
	return segno.Errorf(segno.KindInvalid, opOpen, name, format, args...).WithHint(hint)
}

const urlHint = "give a URL like s3://BUCKET/PREFIX?endpoint=https://s3.example.com&region=REGION"

// parse reads the URL of a bucket. Its errors contain no part of the URL that may be a secret.
func parse(where string, o Options) (*Bucket, error) {
	u, err := url.Parse(where)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" || u.Fragment != "" {
		return nil, invalid("", urlHint, "the URL of a bucket is malformed")
	}
	if u.User != nil {
		return nil, invalid("", "put the keys into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or into a file", "the URL of a bucket contains credentials")
	}
	if !isBucketName(u.Host) {
		return nil, invalid("", urlHint, "the URL names no valid bucket")
	}
	b := &Bucket{options: o, prefix: strings.Trim(u.Path, "/"), name: "s3://" + u.Host}
	if b.prefix != "" {
		b.name, b.prefix = b.name+"/"+b.prefix, b.prefix+"/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid(b.name, urlHint, "the parameters of the URL are malformed")
	}
	var endpoint string
	for name, values := range query {
		value := map[string]*string{"endpoint": &endpoint, "region": &b.region, "profile": &b.profile}[name]
		if value == nil || len(values) != 1 {
			return nil, invalid(b.name, "use endpoint, region and profile, once each", "unknown or repeated parameter %.40q", name)
		}
		*value = values[0]
	}
	b.region = cmp.Or(b.region, o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	if strings.Trim(b.region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, invalid(b.name, urlHint, "the region's name has other characters than small letters, digits and \"-\"")
	}
	return b, b.setEndpoint(u.Host, cmp.Or(endpoint, o.Getenv("AWS_ENDPOINT_URL_S3"), o.Getenv("AWS_ENDPOINT_URL")))
}

// isBucketName reports whether a name can be a bucket's. Amazon's rule is stricter, and other servers check their own.
func isBucketName(name string) bool {
	return len(name) >= 1 && len(name) <= 255 && name != "." && name != ".." &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

// setEndpoint sets where requests go. The path names the bucket, as every server understands, except at Amazon, which
// wants it in the host. A certificate for the host does not cover a bucket's name with a dot.
func (b *Bucket) setEndpoint(bucket, endpoint string) error {
	if endpoint == "" {
		b.endpoint = &url.URL{Scheme: "https", Host: "s3." + b.region + ".amazonaws.com"}
		if !strings.Contains(bucket, ".") {
			b.endpoint.Host, b.path = bucket+"."+b.endpoint.Host, "/"
			return nil
		}
	} else {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return invalid(b.name, urlHint, "the endpoint is not the address of a server")
		}
		b.endpoint = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	}
	b.path = b.endpoint.Path + "/" + bucket + "/"
	return nil
}

// check lists at most one object, so that a wrong name, key or address is an error now and not when the first large object
// is written.
func (b *Bucket) check(ctx context.Context) error {
	_, err := b.listPage(ctx, b.prefix, "", 1)
	if err == nil {
		return nil
	}
	kind, hint := segno.KindIO, "check that the server can be reached, then try again"
	var refusal *statusError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind, hint = segno.KindCancelled, ""
	case errors.Is(err, errNoKeys):
		kind, hint = segno.KindInvalid, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case errors.As(err, &refusal):
		kind, hint = refusal.advice()
	}
	return segno.NewError(kind, opOpen, b.name, err).WithHint(hint)
}

// advice returns the kind of a server's refusal and what the user can do.
func (e *statusError) advice() (segno.Kind, string) {
	switch {
	case e.Code == "NoSuchBucket":
		return segno.KindNotFound, "create the bucket, or check its name and the endpoint"
	case e.status == http.StatusForbidden && e.Code == "RequestTimeTooSkewed":
		return segno.KindRefused, "set the clock of this machine"
	case e.status == http.StatusForbidden, e.status == http.StatusUnauthorized, e.Code == "XAdminUserNotFound": // versitygw's unknown key
		return segno.KindRefused, "check the keys and the permissions of their user"
	case e.status/100 == 3 || e.Code == "AuthorizationHeaderMalformed":
		return segno.KindInvalid, "set the region of the bucket with region=NAME"
	}
	return segno.KindIO, "check that the server can be reached, then try again"
}

// statusError is a response without success.
type statusError struct {
	status  int
	Code    string        `xml:"Code"`
	Message string        `xml:"Message"`
	clock   time.Time     // the server's
	skew    time.Duration // with which the request was signed
	after   time.Duration // when to try again, as the server says
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d", e.status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}
