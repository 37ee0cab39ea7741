package serverrig

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/dalsegno/segno/internal/testing/debian"
)

const (
	gatewayModule  = "github.com/versity/versitygw"
	gatewayVersion = "v1.8.0"
)

// The user of the gateway that [S3] starts, and its bucket.
const (
	S3Key    = "segnotestkey"
	S3Secret = "segnotestsecret"
	S3Bucket = "segno"
)

// S3Env returns the variables with which a process signs in to the gateway that [S3] starts.
func S3Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + S3Key, "AWS_SECRET_ACCESS_KEY=" + S3Secret, "AWS_REGION=us-east-1"}
}

// S3 starts a gateway that serves a directory in the protocol of Amazon S3, with one empty bucket unless the directory
// has one already: versitygw. The URL is that of the bucket, with the gateway as the parameter endpoint. Its directory is
// dir, or a new one that Stop removes if dir is empty. ctx bounds only the start.
func S3(ctx context.Context, dir string) (*Server, error) {
	prog, err := gatewayProgram(ctx)
	if err != nil {
		return nil, err
	}
	dir, ownsDir, err := prepareDir(dir)
	if err != nil {
		return nil, fmt.Errorf("serverrig: making a directory for versitygw: %w", err)
	}
	objects := filepath.Join(dir, "objects")
	if err := os.MkdirAll(filepath.Join(objects, S3Bucket), 0o755); err != nil {
		return nil, fmt.Errorf("serverrig: making a bucket for versitygw: %w", err)
	}
	health := "/" + rand.Text() // another server on the same port does not have this path
	command := func(dir string, port int) *exec.Cmd {
		// Metadata are in extended attributes. In the gateway's other form, separate files, a kill can leave an object without them.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), prog, "--port", "127.0.0.1:"+strconv.Itoa(port), "--quiet", "--keep-alive",
			"--health", health, "posix", objects)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3Key, "ROOT_SECRET_KEY="+S3Secret)
		cmd.Dir = dir
		return cmd
	}
	return launch(ctx, kind{
		name:    "versitygw",
		command: command,
		url:     func(addr string) string { return "s3://" + S3Bucket + "?endpoint=http://" + addr + "&region=us-east-1" },
		ready: func(ctx context.Context, _, addr string, _ int) error {
			return gatewayReady(ctx, "http://"+addr+health)
		},
		stop:   syscall.SIGTERM,
		orphan: syscall.SIGKILL,
	}, dir, ownsDir)
}

func gatewayReady(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the health check returned status %d", res.StatusCode)
	}
	return nil
}

// gatewayProgram returns the path of the gateway. The first call builds it into the user's cache, which takes minutes;
// concurrent processes build it only once. The error is one line that names the module.
func gatewayProgram(ctx context.Context) (string, error) {
	file, err := buildGateway(ctx)
	if err != nil {
		return "", fmt.Errorf("serverrig: installing %s@%s: %w", gatewayModule, gatewayVersion, err)
	}
	return file, nil
}

func buildGateway(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "segno-test", "versitygw@"+gatewayVersion)
	file := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := debian.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil {
		return file, nil // another process was first
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "installing-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", gatewayModule+"/cmd/versitygw@"+gatewayVersion)
	cmd.Dir = temp // outside any module
	cmd.Env = append(os.Environ(), "GOBIN="+temp, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("running go install: %w: %s", err, debian.ErrorLine(out))
	}
	if err := os.RemoveAll(dir); err != nil { // without the program
		return "", err
	}
	return file, os.Rename(temp, dir)
}
