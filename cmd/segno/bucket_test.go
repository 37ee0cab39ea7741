package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/fleet/fleetcmd"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/postgres"
)

// TestServeWithABucket puts a large object into a store with a bucket, and reads it through 'segno serve --bucket'.
func TestServeWithABucket(t *testing.T) {
	buckets := map[string]string{"directory": "file://" + t.TempDir()}
	if soak.IsWhole() { // the gateway is built from the network
		gateway, err := serverrig.S3(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer gateway.Stop()
		for _, v := range serverrig.S3Env() {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		buckets["s3"] = strings.Replace(gateway.URL, "?", "/prefix?", 1)
	}
	for name, bucket := range buckets {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { (&project{TB: t}).admin("DROP SCHEMA IF EXISTS segno CASCADE") })
			large := randomBytes(1 << 20)
			hash := putLarge(t, bucket, large)
			if data, err := serveObject(t, hash, "--bucket", bucket); err != nil || !bytes.Equal(data, large) {
				t.Errorf("through the API: %d bytes, %v", len(data), err)
			}
			if data, err := serveObject(t, hash); err == nil || !strings.Contains(err.Error(), "opened without one") {
				t.Errorf("without --bucket: %d bytes, %v", len(data), err)
			}
		})
	}
}

// randomBytes returns n bytes that cannot be compressed.
func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	return data
}

// putLarge makes a store with a bucket, and keeps an object in it.
func putLarge(t *testing.T, where string, data []byte) segno.Hash {
	t.Helper()
	b, err := fleetcmd.OpenBucket(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := postgres.Open(t.Context(), server.URL, postgres.Options{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch := s.Objects().Batch()
	defer batch.Close()
	hash, err := batch.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := batch.Stage(t.Context())
	if err == nil {
		err = s.Objects().Keep(t.Context(), staged)
	}
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, err := range b.List(t.Context(), "segno/") {
		if err != nil {
			t.Fatal(err)
		}
		names++
	}
	if names != 1 {
		t.Errorf("the bucket has %d objects", names)
	}
	return hash
}

// serveObject runs 'segno serve' and reads an object through its API.
func serveObject(t *testing.T, hash segno.Hash, flags ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--store", server.URL}, flags...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("segno serve: %v", err)
		}
	}()
	var printed struct{ URL, Token string }
	if err := json.NewDecoder(out).Decode(&printed); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(printed.URL, printed.Token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Objects().Get(t.Context(), hash)
}

// TestBucketsThatCannotBeOpened verifies the errors of a bucket's URL.
func TestBucketsThatCannotBeOpened(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	for where, kind := range map[string]segno.Kind{
		"s3://joe:pa55word@bucket":                             segno.KindInvalid,
		"s3://bucket?endpoint=http://joe:pa55word@127.0.0.1:1": segno.KindInvalid,
		"s3://bucket?endpoint=http://127.0.0.1:1":              segno.KindInvalid, // no keys
		"pa55word://bucket":                                    segno.KindInvalid,
		"pa55word":                                             segno.KindInvalid,
		"file://joe:pa55word@host/srv":                         segno.KindInvalid,
		"file:///no/such/directory":                            segno.KindNotFound,
	} {
		if _, err := openPostgres(context.WithoutCancel(t.Context()), server.URL, where); segno.KindOf(err) != kind || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: %v", where, err)
		}
	}
}
