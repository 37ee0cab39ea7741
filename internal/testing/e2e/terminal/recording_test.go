package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/screencast"
)

var recordingFile = flag.String("recording", "", "write the recording of the README into this `file`")

// recording is the animation in the README.
const recording = "../../../../docs/demo.svg"

const recordingCols = 80

// TestRecording records a first session with segno and the real Claude Code: enable, a turn that deletes files, and undo. The
// recording in docs/ must have the same texts, except for ids and paths, which draw replaces.
func TestRecording(t *testing.T) {
	t.Parallel()
	image, err := screencast.Draw("A terminal: segno enable claude; Claude Code deletes .env and notes.md; segno undo brings both back", recordingCols, record(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(image) > 60_000 {
		t.Errorf("the recording has %d bytes", len(image))
	}
	if *recordingFile != "" {
		if err := os.WriteFile(*recordingFile, image, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if current, err := os.ReadFile(recording); err != nil || !bytes.Equal(current, image) {
		t.Errorf("docs/demo.svg is not what the programs print now; make it with 'make recording' (%v)\n%s", err, image)
	}
}

// record runs the session and returns its steps.
func record(t *testing.T) []screencast.Step {
	versions := agentrig.ClaudeVersions()
	bin, err := agentrig.Install(t.Context(), versions[len(versions)-1])
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "clean up the working directory"
	model := httptest.NewServer(scripted(t, prompt, e2erig.Bash("rm -r .env notes.md"), "Removed .env and notes.md."))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	rig, err := agentrig.New(dir, bin, model.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := rig.WriteSettings(map[string]any{"permissions": map[string]any{"defaultMode": "bypassPermissions"}}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{".env": "PORT=8080\n", "notes.md": "# To do\n", "main.go": "package main\n"} {
		if err := os.WriteFile(filepath.Join(rig.Project, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	segno, err := exec.LookPath("segno")
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(dir, "programs")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(programs, "claude")); err != nil {
		t.Fatal(err)
	}
	rig.Path = []string{filepath.Dir(segno), programs}
	mask := strings.NewReplacer(rig.Project, "/home/ann/api", rig.Home, "/home/ann", filepath.Dir(segno), "/usr/bin")
	var steps []screencast.Step
	for _, line := range []string{"segno enable claude", `claude -p "` + prompt + `"`, "cat .env", "segno undo", "cat .env"} {
		steps = append(steps, screencast.Step{Command: line, Output: mask.Replace(inTerminal(t, rig, line))})
	}
	withoutIDs(t, rig, segno, steps)
	if got, err := os.ReadFile(filepath.Join(rig.Project, ".env")); err != nil || string(got) != "PORT=8080\n" {
		t.Errorf("the session ends with .env %q (%v)", got, err)
	}
	return steps
}

// withoutIDs replaces the ids in the outputs, which differ in each run.
func withoutIDs(t *testing.T, rig *agentrig.Rig, segno string, steps []screencast.Step) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), segno, "log", "--json")
	cmd.Dir, cmd.Env = rig.Project, rig.Env()
	log, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	// Ids are long in JSON, and outputs have their first six characters.
	patterns := []string{`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`, `\b[a-z2-7]{26}\b`}
	for _, id := range regexp.MustCompile(`"[a-z2-7]{26}"`).FindAll(log, -1) {
		patterns = append(patterns, `\b`+string(id[1:7])+`\b`)
	}
	ids := regexp.MustCompile(strings.Join(patterns, "|"))
	for n := range steps {
		steps[n].Output = ids.ReplaceAllStringFunc(steps[n].Output, func(id string) string {
			return "q4dpmj7tz5w3kx6nbvch2y4raq"[:min(len(id), 26)]
		})
	}
}

// inTerminal runs a line of a shell in a terminal, answers yes to a question, and returns the output.
func inTerminal(t *testing.T, rig *agentrig.Rig, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = rig.Project, append(rig.Env(), "PWD="+rig.Project)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: recordingCols})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var output strings.Builder
	buf, answered := make([]byte, 4096), false
	for {
		n, err := tty.Read(buf)
		output.Write(buf[:n])
		if !answered && strings.HasSuffix(output.String(), "[y/N] ") {
			answered = true
			if _, err := tty.WriteString("y\r"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break // the program has closed the terminal
		}
	}
	_ = cmd.Wait() // cat fails for a deleted file
	return output.String()
}

// scripted returns a model that answers a prompt with steps. The prompt that the agent sends, and that segno records, is that of
// the user: the script of the fake model is added on the way.
func scripted(t *testing.T, prompt string, steps ...any) http.Handler {
	script, err := json.Marshal(e2erig.Prompt(prompt, steps...))
	if err != nil {
		t.Fatal(err)
	}
	model := fakemodel.New()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		body = bytes.ReplaceAll(body, []byte(prompt), bytes.Trim(script, `"`))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		model.ServeHTTP(w, r)
	})
}
