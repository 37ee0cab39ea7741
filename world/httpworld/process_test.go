package httpworld_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/world/grid"
	"github.com/dalsegno/segno/world/httpworld"
	"github.com/dalsegno/segno/world/worldcheck"
	"github.com/dalsegno/segno/world/worldtest"
)

// TestMain lets the test binary act as several commands: worlds, and an owner of a world.
func TestMain(m *testing.M) {
	switch os.Getenv("HTTPWORLD_TEST") {
	case "":
		os.Exit(m.Run())
	case "grid":
		fmt.Fprintln(os.Stderr, httpworld.Serve(context.Background(), grid.New(7), os.Getenv))
	case "fussy": // it refuses a port, as if connections to the port had just ended
		if os.Getenv("WORLD_PORT") == os.Getenv("WORLD_REFUSED") {
			fmt.Fprintln(os.Stderr, "address already in use")
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, httpworld.Serve(context.Background(), grid.New(7), os.Getenv))
	case "forgetful": // it ignores the document
		fmt.Fprintln(os.Stderr, httpworld.Serve(context.Background(), grid.New(7), func(name string) string {
			if name == "WORLD_RESUME_PATH" {
				return ""
			}
			return os.Getenv(name)
		}))
	case "chatty": // it writes a line for each request
		h := httpworld.NewHandler(grid.New(7), os.Getenv("WORLD_OPERATOR_TOKEN"))
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("WORLD_HOST")+":"+os.Getenv("WORLD_PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(os.Stderr, r.Method, r.URL.Path)
			h.ServeHTTP(w, r)
		})))
	case "open": // it shows its state to everyone
		h := httpworld.NewHandler(grid.New(7), os.Getenv("WORLD_OPERATOR_TOKEN"))
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("WORLD_HOST")+":"+os.Getenv("WORLD_PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("X-Operator-Token", os.Getenv("WORLD_OPERATOR_TOKEN"))
			h.ServeHTTP(w, r)
		})))
	case "owner":
		w, err := httpworld.Start(context.Background(), os.Getenv("HTTPWORLD_DIR"), httpworld.Options{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(w.PID(), w.URL())
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	os.Exit(1)
}

// worldDir makes a world from a command and returns the world's directory.
func worldDir(t *testing.T, command ...string) string {
	t.Helper()
	dir := t.TempDir()
	list, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("name = \"test\"\n[runtime]\nmode = \"stepped\"\ntick = 1.0\n[run]\ncommand = %s\n", list)
	if err := os.WriteFile(filepath.Join(dir, httpworld.ConfigFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testWorld returns the directory of a world that TestMain serves.
func testWorld(t *testing.T, name string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return worldDir(t, "env", "HTTPWORLD_TEST="+name, exe)
}

func gridActions() *rapid.Generator[json.RawMessage] {
	return rapid.SampledFrom([]json.RawMessage{[]byte(`{"do":"move","direction":"north"}`), []byte(`{"do":"move","direction":"east"}`),
		[]byte(`{"do":"take"}`), []byte(`{"do":"say","text":"hi"}`), []byte(`{"do":"fly"}`)})
}

func sayInGrid(text string) json.RawMessage { return fmt.Appendf(nil, `{"do":"say","text":%q}`, text) }

// TestWorldInGo runs a World of Go as another process, with the handler on one side and the adapter on the other.
func TestWorldInGo(t *testing.T) {
	dir := testWorld(t, "grid")
	worldtest.Test(t, worldtest.Config{
		Config: worldcheck.Config{
			New: func(ctx context.Context) (segno.World, error) { return httpworld.Start(ctx, dir, httpworld.Options{}) },
			Say: sayInGrid, External: true,
		},
		Action: gridActions(), Rounds: 1,
	})
}

// fullDisk is a log that cannot be written.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestAWorldOutlivesItsLog runs a world while writes to its log fail. The world continues.
func TestAWorldOutlivesItsLog(t *testing.T) {
	ctx := t.Context()
	w, err := httpworld.Start(ctx, testWorld(t, "chatty"), httpworld.Options{Log: fullDisk{}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Join(ctx, "session", "Ada"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := w.Observe(ctx, "session"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStartAtAnotherPort starts a world that cannot listen on the requested port.
func TestStartAtAnotherPort(t *testing.T) {
	ctx, dir := t.Context(), testWorld(t, "fussy")
	first, err := httpworld.Start(ctx, dir, httpworld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	port := first.Port()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := httpworld.Start(ctx, dir, httpworld.Options{Port: port})
	if err != nil || again.Port() != port {
		t.Fatalf("the port is %v, %v", again, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := httpworld.Start(ctx, dir, httpworld.Options{Port: port, Env: []string{fmt.Sprintf("WORLD_REFUSED=%d", port)}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Port() == port {
		t.Error("it has the port that it refuses")
	}
}

// TestPlayer runs players of worlds: one that answers, and some that cannot.
func TestPlayer(t *testing.T) {
	for _, x := range []struct{ command, want, failure string }{
		{`["sh", "-c", "echo \"{\\\"seen\\\": $(cat), \\\"files\\\": \\\"$AGENT_WORKSPACE\\\"}\""]`, `{"seen": {"fish":3}, "files": "/agent"}`, ""},
		{`"cat"`, `{"fish":3}`, ""},
		{`"echo fish"`, "", `printed "fish", which is not JSON`},
		{`"echo lost >&2; exit 3"`, "", "exit status 3: lost"},
		{`["no-such-program"]`, "", "not found"},
	} {
		dir := worldDir(t, "true")
		path := filepath.Join(dir, httpworld.ConfigFile)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(text, "[player]\ncommand = "+x.command+"\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		play, err := httpworld.Player(t.Context(), dir, "/agent")
		if err != nil {
			t.Fatal(err)
		}
		action, err := play([]byte(`{"fish":3}`))
		if string(action) != x.want || (err == nil) != (x.failure == "") || err != nil && !strings.Contains(err.Error(), x.failure) {
			t.Errorf("%s plays %s, %v", x.command, action, err)
		}
	}
	if _, err := httpworld.Player(t.Context(), worldDir(t, "true"), "/agent"); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a world without a player: %v", err)
	}
}

// TestPlayerEnds cancels a player while its command waits for another program, and runs a player that leaves a program in the background.
func TestPlayerEnds(t *testing.T) {
	t.Parallel()
	dir, pipe := worldDir(t, "true"), filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for command, isCancelled := range map[string]bool{"sleep 60 & echo > '" + pipe + "'; wait; echo {}": true, "sleep 60 & echo {}": false} {
		text := "[runtime]\nmode = \"stepped\"\ntick = 1.0\n[run]\ncommand = \"true\"\n[player]\ncommand = " + fmt.Sprintf("%q", command) + "\n"
		if err := os.WriteFile(filepath.Join(dir, httpworld.ConfigFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		player, err := httpworld.Player(ctx, dir, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if isCancelled {
			go func() {
				_, _ = os.ReadFile(pipe) // the command runs
				cancel()
			}()
		}
		began := time.Now()
		action, err := player([]byte("{}"))
		if took := time.Since(began); took > 50*time.Second || (err != nil) != isCancelled || !isCancelled && string(action) != "{}" {
			t.Errorf("%s: %s, %v after %s", command, action, err, took)
		}
		cancel()
	}
}

func TestStartWithDocument(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, dir := t.Context(), testWorld(t, "grid")
	first, err := httpworld.Start(ctx, dir, httpworld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.Join(ctx, "secret", "Ada"); err != nil {
		t.Fatal(err)
	}
	saved, err := first.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := httpworld.Start(ctx, dir, httpworld.Options{Resume: saved.Document})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	a, errA := first.Observe(ctx, "secret")
	b, errB := second.Observe(ctx, "secret")
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("the observations are %s, %v and %s, %v", a, errA, b, errB)
	}
	if err := second.Load(ctx, saved.Document); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a resumed world loads again: %v", err)
	}

	// A world that begins with another state than the document is refused and ended.
	forgetful := testWorld(t, "forgetful")
	w, err := httpworld.Start(ctx, forgetful, httpworld.Options{Resume: saved.Document})
	if !errors.Is(err, segno.KindCorrupt) || !strings.Contains(err.Error(), "did not begin with the document") {
		t.Errorf("a forgetful world starts: %v, %v", w, err)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("documents stay in the temporary directory: %v, %v", left, err)
	}

	// A file that a killed process left is replaced.
	path := filepath.Join(temp, "resume")
	if err := os.WriteFile(path, []byte("cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	third, err := httpworld.Start(ctx, dir, httpworld.Options{Resume: saved.Document, ResumePath: path})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if c, err := third.Observe(ctx, "secret"); err != nil || string(c) != string(a) {
		t.Errorf("the observation is %s, %v; want %s", c, err, a)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the document stays: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, c := range map[string]struct {
		dir, text string
		kind      segno.Kind
		timeout   time.Duration // of a command that never serves
	}{
		"a world that shows its state": {dir: testWorld(t, "open"), text: "401", kind: segno.KindRefused},
		"a command that ends":          {dir: worldDir(t, "sh", "-c", "echo starting; echo no engine >&2; exit 3"), text: "no engine", kind: segno.KindIO},
		"a command that is missing":    {dir: worldDir(t, "/does/not/exist"), text: "not found", kind: segno.KindIO},
		"a command that never serves":  {dir: worldDir(t, "sleep", "100"), text: "GET /api.md did not succeed", kind: segno.KindIO, timeout: time.Second},
		"a directory without a world":  {dir: t.TempDir(), text: "world.toml", kind: segno.KindNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := httpworld.Start(t.Context(), c.dir, httpworld.Options{HealthTimeout: cmp.Or(c.timeout, 5*time.Minute)})
			if err == nil {
				w.Close()
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"name = ":        "expected value",
		"author = \"x\"": `unknown key "author"`,
		"run.command = \"true\"\nruntime.mode = \"realtime\"\ncheck.actions = [\"{\"]": "check.actions",
		"run.command = \"true\"\nruntime.mode = \"realtime\"\ncheck.say = \"hello\"":   "check.say",
		"[run]\ncommand = []":                                "run.command is missing",
		"[run]\ncommand = 7":                                 "run.command",
		"[run]\ncommand = \"true\"":                          `runtime.mode is ""`,
		"runtime.mode = \"stepped\"\nrun.command = \"true\"": "runtime.tick",
		"runtime.mode = \"stepped\"\nruntime.tick = -1.0\nrun.command = \"true\"":  "runtime.tick",
		"runtime.mode = \"stepped\"\nruntime.tick = nan\nrun.command = \"true\"":   "runtime.tick",
		"runtime.mode = \"stepped\"\nruntime.tick = 1e300\nrun.command = \"true\"": "runtime.tick",
		"runtime.mode = \"realtime\"\nruntime.tick = 1.0\nrun.command = \"true\"":  "runtime.tick",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, httpworld.ConfigFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := httpworld.ReadConfig(dir); !errors.Is(err, segno.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

// awaitEnd waits until no process listens at a URL and the leader of the group has ended.
func awaitEnd(t *testing.T, url string, leader int) {
	t.Helper()
	for t.Context().Err() == nil {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api.md", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		if err != nil && proc.Start(leader) == "" {
			return
		}
	}
	t.Error("the world runs on")
}

func TestCloseEndsTheProcessGroup(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The shell ignores SIGTERM and has a child.
	dir := worldDir(t, "sh", "-c", "trap '' TERM; sleep 1000 & HTTPWORLD_TEST=grid "+exe)
	w, err := httpworld.Start(t.Context(), dir, httpworld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url, group := w.URL(), w.PID()
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, url, group)
	if _, err := w.Observe(t.Context(), "x"); !errors.Is(err, segno.KindIO) {
		t.Errorf("a closed world answers: %v", err)
	}
}

func TestCloseLetsTheWorldEnd(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "ended")
	dir := worldDir(t, "sh", "-c", "trap 'echo saved >"+note+"; kill $world; exit' TERM; HTTPWORLD_TEST=grid "+exe+" & world=$!; wait")
	w, err := httpworld.Start(t.Context(), dir, httpworld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "saved\n" {
		t.Errorf("the world could not end: %q, %v", text, err)
	}
}

func TestStartCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w, err := httpworld.Start(ctx, worldDir(t, "sleep", "100"), httpworld.Options{})
	if !errors.Is(err, context.DeadlineExceeded) || segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("%v, %v", w, err)
	}
}

func TestWorldEndsWithItsOwner(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "HTTPWORLD_TEST=owner", "HTTPWORLD_DIR="+testWorld(t, "grid"))
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var group int
	var url string
	if _, err := fmt.Sscan(line, &group, &url); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	awaitEnd(t, url, group)
}

func TestServeRefuses(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"WORLD_OPERATOR_TOKEN": {"WORLD_HOST": "127.0.0.1", "WORLD_PORT": "0"},
		"WORLD_HOST":           {"WORLD_HOST": "0.0.0.0", "WORLD_PORT": "0", "WORLD_OPERATOR_TOKEN": "token"},
		"not a loopback":       {"WORLD_PORT": "0", "WORLD_OPERATOR_TOKEN": "token"},
		"no such file":         {"WORLD_HOST": "127.0.0.1", "WORLD_PORT": "0", "WORLD_OPERATOR_TOKEN": "token", "WORLD_RESUME_PATH": "/does/not/exist"},
	} {
		err := httpworld.Serve(t.Context(), grid.New(1), func(name string) string { return env[name] })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: the error is %v", env, err)
		}
	}
}

func TestHandlerRefusesOtherHosts(t *testing.T) {
	h := httpworld.NewHandler(grid.New(1), "token")
	for _, c := range []struct {
		host, origin, token string
		want                int
	}{
		{"127.0.0.1:80", "", "token", http.StatusOK},
		{"localhost", "http://localhost:8080", "token", http.StatusOK},
		{"[::1]:9", "", "token", http.StatusOK},
		{"127.0.0.1", "", "", http.StatusUnauthorized},
		{"127.0.0.1", "", "tokem", http.StatusUnauthorized},
		{"example.com", "", "token", http.StatusForbidden},
		{"127.0.0.1.example.com", "", "token", http.StatusForbidden},
		{"127.0.0.1", "https://example.com", "token", http.StatusForbidden},
		{"127.0.0.1", "null", "token", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "/snapshot", nil)
		r.Host = c.host
		r.Header.Set("X-Operator-Token", c.token)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		if out.Code != c.want {
			t.Errorf("%+v: the status is %d", c, out.Code)
		}
	}
}
