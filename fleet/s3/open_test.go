package s3

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestMalformedURLs verifies that a URL that cannot be meant is refused, and that no error has a part of it that may be a
// secret.
func TestMalformedURLs(t *testing.T) {
	for _, where := range []string{
		"", "s3:", "s3://", "s3:///prefix", "https://bucket", "s3:bucket", "s3://bucket#pa55word", "s3://bu cket",
		"s3://key:pa55word@bucket", "s3://pa55word@bucket/prefix", "s3://key:pa55/word@bucket", "s3://key:pa55word%zz@bucket",
		"s3://bucket?secret=pa55word", "s3://bucket?region=eu&region=us", "s3://bucket?region=pa55 word", "s3://bucket?%zzpa55",
		"s3://bucket?endpoint=ftp://server", "s3://bucket?endpoint=server:9000", "s3://bucket?endpoint=http://me:pa55word@server",
		"s3://bucket?endpoint=http://server?key=pa55word", "s3://..", "s3://bucket:9000/prefix",
	} {
		b, err := OpenWith(t.Context(), where, Options{Getenv: environment()})
		if segno.KindOf(err) != segno.KindInvalid || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: %v, %v", where, b, err)
		}
	}
}

// TestAddresses verifies where requests go.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ where, env, want string }{
		{"s3://agents", "", "https://agents.s3.us-east-1.amazonaws.com/ key "},
		{"s3://agents/a/b/?region=eu-west-3", "", "https://agents.s3.eu-west-3.amazonaws.com/ key a/b/"},
		{"s3://agents", "AWS_REGION=eu-west-3", "https://agents.s3.eu-west-3.amazonaws.com/ key "},
		{"s3://agents.example.com", "", "https://s3.us-east-1.amazonaws.com/agents.example.com/ key "},
		{"s3://agents?endpoint=http://127.0.0.1:9000", "", "http://127.0.0.1:9000/agents/ key "},
		{"s3://agents/p?endpoint=https://s3.example.com/base/", "", "https://s3.example.com/base/agents/ key p/"},
		{"s3://agents", "AWS_ENDPOINT_URL=http://[::1]:9000", "http://[::1]:9000/agents/ key "},
		{"s3://agents?endpoint=http://127.0.0.1:1", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:2", "http://127.0.0.1:1/agents/ key "},
	} {
		b, err := parse(c.where, Options{Getenv: environment(c.env)}.withDefaults())
		if err != nil {
			t.Errorf("%s: %v", c.where, err)
			continue
		}
		if got := b.endpoint.Scheme + "://" + b.endpoint.Host + b.path + " key " + b.prefix; got != c.want {
			t.Errorf("%s with %q: %s; want %s", c.where, c.env, got, c.want)
		}
		if strings.Contains(b.String(), "?") {
			t.Errorf("the name is %s", b)
		}
	}
}

// TestCredentials verifies in which order keys are found, and that they are read again for each request.
func TestCredentials(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".aws", "credentials")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "[default]\naws_access_key_id = dk\naws_secret_access_key=ds\n\n[ other ] ; a comment\n# aws_access_key_id = no\nAWS_Access_Key_Id=ok\naws_secret_access_key = o=s\naws_session_token = ot\n[half]\naws_access_key_id=hk\n")
	elsewhere := filepath.Join(home, "elsewhere")
	write(elsewhere, "[default]\naws_access_key_id=ek\naws_secret_access_key=es\n")
	fromEnv := []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
	for _, c := range []struct {
		profile string
		env     []string
		want    string
	}{
		{"", fromEnv, "{k s }"},
		{"", append(fromEnv, "AWS_SESSION_TOKEN=t", "AWS_PROFILE=other"), "{k s t}"},
		{"", nil, "{dk ds }"},
		{"", []string{"AWS_PROFILE=other"}, "{ok o=s ot}"},
		{"other", fromEnv, "{ok o=s ot}"},
		{"", []string{"AWS_SHARED_CREDENTIALS_FILE=" + elsewhere}, "{ek es }"},
		{"", []string{"AWS_ACCESS_KEY_ID=k"}, "error"},
		{"", []string{"AWS_ACCESS_KEY_ID=k\r\nHost: other", "AWS_SECRET_ACCESS_KEY=s"}, "error"},
		{"half", nil, "error"},
		{"missing", nil, "error"},
		{"", []string{"AWS_SHARED_CREDENTIALS_FILE=" + elsewhere + ".missing"}, "error"},
	} {
		b := &Bucket{profile: c.profile, options: Options{Getenv: environment(append(c.env, "HOME="+home)...)}}
		got, err := b.credentials(t.Context())
		text := fmt.Sprint(got)
		if err != nil {
			text = "error"
		}
		if text != c.want || err != nil && !errors.Is(err, errNoKeys) {
			t.Errorf("profile %q, %q: %s, %v; want %s", c.profile, c.env, text, err, c.want)
		}
	}
	b := &Bucket{options: Options{Getenv: environment("HOME=" + home)}}
	write(file, "[default]\naws_access_key_id = new\naws_secret_access_key = new\n")
	if got, err := b.credentials(t.Context()); err != nil || got.Key != "new" {
		t.Errorf("after the file was replaced: %v, %v", got, err)
	}
	b.options.Credentials = func(context.Context) (Credentials, error) { return Credentials{Key: "role"}, nil }
	if got, err := b.credentials(t.Context()); err != nil || got.Key != "role" {
		t.Errorf("from a function: %v, %v", got, err)
	}
}
