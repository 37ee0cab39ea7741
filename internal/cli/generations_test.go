package cli_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/executable"
)

// experiment is an installation with one experiment.
type experiment struct {
	t           *testing.T
	dir         string
	env         []string
	file        string
	consistency string // consistency of the checkpoints
}

const villageTOML = `
world = "company"
seed = 7
generations = 3
ticks = 8
[[agents]]
name = "Ada"
[[agents]]
name = "Bo"
[[agents]]
name = "Cy"
`

// newExperiment makes an installation. All installations of one test have the same key, so that the agents' sessions in
// the world are the same, too. Other tests have other keys, because a runner kills all processes that have such a session.
func newExperiment(t *testing.T, text, every string) *experiment {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &experiment{t: t, dir: dir, file: filepath.Join(dir, "village.toml"), consistency: archive.Quiet}
	test, _, _ := strings.Cut(t.Name(), "/")
	x.env = []string{"HOME=" + filepath.Join(dir, "user"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		"XDG_DATA_HOME=" + filepath.Join(dir, "data"), "CHECKPOINT_EVERY=" + every}
	for name, content := range map[string]string{"village.toml": text, "user/note": "", "runs/village/key": fmt.Sprint("the key of ", os.Getpid(), test)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// replaceClaude replaces Claude Code by a script.
func (x *experiment) replaceClaude(script string) {
	x.t.Helper()
	bin := filepath.Join(x.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := executable.Write(filepath.Join(bin, "claude"), []byte(script)); err != nil {
		x.t.Fatal(err)
	}
	i := slices.IndexFunc(x.env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if path := strings.TrimPrefix(x.env[i], "PATH="); !strings.HasPrefix(path, bin+":") {
		x.env[i] = "PATH=" + bin + ":" + path
	}
}

// command returns a command of segno in the installation.
func (x *experiment) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(x.t.Context(), "segno", args...)
	cmd.Dir, cmd.Env = x.dir, x.env
	return cmd
}

// run runs the experiment to its end and returns its output.
func (x *experiment) run(args ...string) (out string, err error) {
	data, err := x.command(append([]string{"generations", "run", x.file}, args...)...).CombinedOutput()
	return string(data), err
}

func (x *experiment) mustRun(args ...string) string {
	x.t.Helper()
	out, err := x.run(args...)
	if err != nil {
		x.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// outcome returns the results of each generation: the digests of the world and of the files in the last archive, and
// the files themselves. It leaves out conversations, because they contain times and ids.
func (x *experiment) outcome() map[string]string {
	x.t.Helper()
	all := map[string]string{}
	for g := 1; g <= 3; g++ {
		run := filepath.Join(x.dir, "runs", fmt.Sprintf("village-g%03d", g))
		r, err := archive.Open(filepath.Join(run, "checkpoints", fmt.Sprintf("gen%03d-t%06d.ckpt", g, 8)))
		if err != nil {
			x.t.Fatal(err)
		}
		for _, e := range r.Manifest().Entries {
			if strings.Contains(e.Path, "/session/") {
				continue
			}
			all[fmt.Sprintf("%d %s", g, e.Path)] = e.SHA256
		}
		r.Close()
		err = filepath.WalkDir(filepath.Join(run, "agents"), func(path string, d os.DirEntry, err error) error {
			if d != nil && d.Name() == "conversation" {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || d.Name() == "agent.log" {
				return err
			}
			data, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, x.dir)] = string(data)
			return err
		})
		if err != nil {
			x.t.Fatal(err)
		}
	}
	return all
}

func (x *experiment) chain(name string) []generation.Row {
	x.t.Helper()
	l, err := generation.ReadLog(filepath.Join(x.dir, "runs"), name)
	if err != nil {
		x.t.Fatal(err)
	}
	return l.Rows
}

// checkRows checks that each row of the chain is correct, and that each generation is completed
// once.
func (x *experiment) checkRows(began, ended time.Time) {
	x.t.Helper()
	completed, owners := map[int]string{}, map[string]string{}
	for i, r := range x.chain("village") {
		out, err := filepath.EvalSymlinks(filepath.Join(x.dir, "runs", r.WorkspaceOut))
		if err != nil || owners[out] != "" {
			x.t.Errorf("%s of %s has the files of %q: %v", r.Agent, r.Run, owners[out], err)
		}
		owners[out] = r.Run
		agent := []string{"Ada", "Bo", "Cy"}[i%3]
		if r.AgentIndex != i%3 || r.Agent != agent || !strings.HasPrefix(r.Run, fmt.Sprintf("village-g%03d-a", r.Generation)) {
			x.t.Errorf("row %d is %+v", i, r)
		}
		if r.Status == generation.RowCompleted {
			isStepped := x.consistency == archive.Quiet
			if isStepped && (r.Ticks != 8 || r.SimTime == 0) || len(r.Outcomes) == 0 || r.Checkpoints == 0 {
				x.t.Errorf("row %+v, want 8 ticks and the outcomes of the world", r)
			}
			completed[r.Generation] = r.Run
		}
		if r.Start.Before(began.Add(-time.Second)) || r.End.After(ended) || r.Start.After(r.End) {
			x.t.Errorf("row %+v is not true between %s and %s", r, began, ended)
		}
		before := completed[r.Generation-1]
		if r.Status != generation.RowCompleted && before == "" && r.Generation > 1 {
			x.t.Errorf("row %+v has no generation before", r)
		}
		x.checkTemplate(r.Generation, before, agent, r.TemplateIn)
	}
	if len(completed) != 3 {
		x.t.Errorf("complete are %v", completed)
	}
}

// checkTemplate checks the origin of a workspace.
func (x *experiment) checkTemplate(g int, before, agent, template string) {
	x.t.Helper()
	if path, ok := strings.CutPrefix(template, "checkpoint:"); ok {
		r, err := archive.Open(filepath.Join(x.dir, "runs", path))
		if err != nil {
			x.t.Errorf("generation %d began with %s: %v", g, template, err)
			return
		}
		cut := r.Manifest().Cut
		isExpected := cut.Consistency == x.consistency || cut.Consistency == archive.Quiet // also in real time, between turns
		if cut.Generation != g || !isExpected {
			x.t.Errorf("generation %d began with %s of %+v", g, template, cut)
		}
		r.Close()
		return
	}
	want := ""
	if g > 1 {
		want = fmt.Sprintf("village/attempts/%s/agents/%s/workspace", before, agent)
	}
	if template != want {
		x.t.Errorf("generation %d of %s began with %q, want %q", g, agent, template, want)
	}
}

// runKilled runs the experiment and kills one of its processes several times.
func (x *experiment) runKilled(r *rand.Rand) {
	x.t.Helper()
	kills := 3 + r.IntN(5)
	for {
		cmd := x.command("generations", "run", x.file, "--json", "--retries", "50")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			x.t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			x.t.Fatal(err)
		}
		var log bytes.Buffer
		lines := bufio.NewReader(io.TeeReader(stdout, &log))
		killed := false
		for !killed && kills > 0 && skipLines(lines, r.IntN(10)) {
			kills--
			<-time.After(time.Duration(r.IntN(30)) * time.Millisecond) // a random moment within a tick
			killed = x.kill(r, cmd.Process.Pid)
		}
		_, _ = io.Copy(io.Discard, lines) // read until the runner ends
		err = cmd.Wait()
		if err == nil && !killed {
			return
		}
		if !killed {
			x.t.Fatalf("%v\n%s%s", err, log.String(), stderr.String())
		}
	}
}

// skipLines reads n lines. It returns false if there were fewer.
func skipLines(r *bufio.Reader, n int) bool {
	for range n {
		if _, err := r.ReadString('\n'); err != nil {
			return false
		}
	}
	return true
}

// kill kills the runner, its world or one of its agents, and reports whether it was the runner.
func (x *experiment) kill(r *rand.Rand, runner int) bool {
	others := descendants(runner)
	if len(others) > 0 && r.IntN(2) == 0 {
		_ = syscall.Kill(others[r.IntN(len(others))], syscall.SIGKILL) // it may have ended
		return false
	}
	return syscall.Kill(runner, syscall.SIGKILL) == nil
}

// descendants returns the descendants of a process that are worlds or agents. It leaves out the shells that watch
// whether the runner still runs.
func descendants(pid int) (all []int) {
	children := map[int][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		data, _ := os.ReadFile(name) // "" if the process ended
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], child)
		}
	}
	for waiting := []int{pid}; len(waiting) > 0; waiting = waiting[1:] {
		waiting = append(waiting, children[waiting[0]]...)
		all = append(all, children[waiting[0]]...)
	}
	return slices.DeleteFunc(all, func(pid int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || bytes.HasPrefix(line, []byte("sh\x00-c\x00exec"))
	})
}

// checkFailedRuns checks that each archive of a failed run is intact, and that the pointer names an archive.
func (x *experiment) checkFailedRuns() {
	x.t.Helper()
	found, _ := filepath.Glob(filepath.Join(x.dir, "runs", "*.failed-*", "checkpoints", "*"))
	for _, path := range found {
		r, err := archive.Open(path)
		if err != nil {
			x.t.Errorf("%s: %v", path, err)
			continue
		}
		r.Close()
	}
	data, err := os.ReadFile(filepath.Join(x.dir, "runs", "village", "checkpoint.json"))
	var p generation.Pointer
	if err := cmp.Or(err, json.Unmarshal(data, &p)); err != nil {
		x.t.Fatal(err)
	}
	r, err := archive.Open(filepath.Join(x.dir, "runs", "village", p.Checkpoint))
	if err != nil || r.Manifest().Digest != p.Digest {
		x.t.Errorf("%s is not the archive %s: %v", p.Checkpoint, p.Digest, err)
	}
}
