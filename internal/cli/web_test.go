package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/wings"
)

// TestWebServesUntilItIsInterrupted starts both verbs, reads with the token, and ends them.
func TestWebServesUntilItIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, ".config", "token") // serve makes both
	for _, args := range [][]string{{"web", "--no-open"}, {"serve", "--listen", "127.0.0.1:0"}, {"serve", "--listen", "127.0.0.1:0", "--token-file", tokens}} {
		ctx, cancel := context.WithCancel(t.Context())
		out, stdout := io.Pipe()
		code := make(chan int, 1)
		go func() {
			code <- cli.Main(ctx, cli.Env{Stdout: stdout, Stderr: t.Output(), Environ: os.Environ, Executable: os.Executable,
				Getwd: func() (string, error) { return dir, nil }, Getenv: func(name string) string {
					return map[string]string{"HOME": dir, "XDG_DATA_HOME": dir}[name]
				}}, wings.All(), args)
			stdout.Close()
		}()
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatalf("%v: no address; exit code %d", args, <-code)
		}
		address, token, _ := strings.Cut(lines.Text(), "#")
		go io.Copy(io.Discard, out)
		if token == "TOKEN" {
			data, err := os.ReadFile(tokens)
			if err != nil {
				t.Fatal(err)
			}
			token = strings.TrimSpace(string(data))
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"api/v1/store", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%v: %s", args, res.Status)
		}
		cancel()
		if c := <-code; c != cli.ExitOK {
			t.Errorf("%v: exit code %d", args, c)
		}
	}
}
