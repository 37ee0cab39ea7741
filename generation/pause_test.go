package generation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/proc"
)

// write writes a file below the directory of the runs.
func (r *rig) write(text string, perm os.FileMode, elements ...string) {
	r.Helper()
	path := r.path(elements...)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), perm)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// pauseInTurn runs an experiment without checkpoints until turn n. In that turn it pauses, as a runner does that
// receives the request of Pause.
func (r *rig) pauseInTurn(n int) generation.Config {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	started := filepath.Join(r.dir, "started")
	r.kind.more = func(turn int) string {
		if turn != n {
			return "true"
		}
		go func() {
			waitFor(r.T, func() bool { return exists(started) })
			r.write(`{"grace":0}`, 0o600, "village/pause.json")
			cancel()
		}()
		return "echo > " + started + "; exec sleep 1000"
	}
	c := r.config(1, 3)
	c.Every, c.Grace = 0, time.Hour
	if err := generation.New(c).Run(ctx); segno.KindOf(err) != segno.KindCancelled {
		r.Fatalf("the error is %v", err)
	}
	r.kind.more = nil
	return c
}

// TestPause stops an experiment within a turn, with a checkpoint, and continues it with the homes as they were.
func TestPause(t *testing.T) {
	r := newRig(t)
	r.conversation(func(turn int) string { return fmt.Sprintf("turn %d", turn) })
	c := r.pauseInTurn(2)
	s, pointer, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || s.State != generation.StatePaused || pointer == nil {
		t.Fatalf("the status is %+v, %+v, %v", s, pointer, err)
	}
	if m := r.manifest("village", pointer.Checkpoint); m.Cut.Consistency != archive.Barrier {
		t.Errorf("the moment is %s", m.Cut.Consistency)
	}
	home := "village-g001/agents/Ada/home"
	r.write("secret", 0o600, home, ".claude/.credentials.json")
	r.write("run", 0o700, home, "bin/tool")
	r.write("index", 0o600, home, ".codex/state_5.sqlite")
	r.write("notes", 0o600, home, "notes.sqlite")
	r.write("older", 0o600, home, ".claude/projects/elsewhere/"+sessionID+".jsonl")
	r.write("temporary", 0o600, "village-g001/agents/Ada/run/file")
	if err := os.Symlink("/etc/passwd", r.path(home, "link")); err != nil {
		t.Fatal(err)
	}
	changed := r.config(1, 3)
	changed.Experiment.Agents[0].Name = "Bo"
	if err := generation.New(changed).Run(t.Context()); segno.KindOf(err) != segno.KindRefused || !exists(r.path(home)) {
		t.Errorf("with another agent: %v", err)
	}
	settings, err := generation.Wake(t.Context(), c.Out, "village")
	if err != nil || settings.File != filepath.Join(r.dir, "village.toml") || settings.Keep != c.Keep {
		t.Fatalf("%+v, %v", settings, err)
	}
	r.on = func(e generation.Event) {
		if e.Kind != generation.EventBegin {
			return
		}
		for name, perm := range map[string]os.FileMode{".claude/.credentials.json": 0o600, "bin/tool": 0o700, "notes.sqlite": 0o600} {
			if info, err := os.Stat(r.path(home, name)); err != nil || info.Mode() != perm {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if target, err := os.Readlink(r.path(home, "link")); target != "/etc/passwd" {
			t.Errorf("the link leads to %q, %v", target, err)
		}
		for _, name := range []string{home + "/.codex/state_5.sqlite", home + "/.claude/projects/elsewhere/" + sessionID + ".jsonl", "village-g001/agents/Ada/run/file"} {
			if exists(r.path(name)) {
				t.Errorf("%s is there", name)
			}
		}
	}
	turns := len(r.kind.turns)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if prompt := r.kind.turns[turns]; !strings.HasPrefix(prompt, "Continue") {
		t.Errorf("the first prompt after the pause is %q", prompt)
	}
	if failed := r.find(generation.EventFailed); len(failed) > 0 {
		t.Errorf("the pause counts as a failure: %+v", failed)
	}
	r.checkNotes("village-g001", 4) // the interrupted turn wrote its line, and then began again
	if _, err := generation.Wake(t.Context(), c.Out, "village"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("a second wake: %v", err)
	}
}

// TestWakeOfDamage refuses a checkpoint that is damaged or was replaced.
func TestWakeOfDamage(t *testing.T) {
	r := newRig(t)
	c := r.pauseInTurn(2)
	if _, err := generation.Wake(t.Context(), c.Out, "other"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the error is %v", err)
	}
	_, pointer, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil {
		t.Fatal(err)
	}
	pointer.Digest = "sha256:" + strings.Repeat("0", 64)
	data, err := json.Marshal(pointer)
	if err != nil {
		t.Fatal(err)
	}
	r.write(string(data), 0o600, "village/checkpoint.json")
	if _, err := generation.Wake(t.Context(), c.Out, "village"); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("the error is %v", err)
	}
	path := r.path("village", pointer.Checkpoint)
	data, err = os.ReadFile(path)
	if err == nil {
		data[len(data)/2] ^= 1
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := generation.Wake(t.Context(), c.Out, "village"); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("the error is %v", err)
	}
}

// TestWakeOfKilled wakes an experiment after its runner was killed, which an earlier wake may have started.
func TestWakeOfKilled(t *testing.T) {
	r := newRig(t)
	c := r.config(1, 1)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := generation.Wake(t.Context(), c.Out, "village"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("after the end: %v", err)
	}
	r.write(`{"experiment":"village","state":"running"}`, 0o600, "village/status.json") // a killed runner leaves this state
	s, err := generation.Wake(t.Context(), c.Out, "village")
	if err != nil || s.File != filepath.Join(r.dir, "village.toml") || s.Every != c.Every || s.Keep != c.Keep {
		t.Errorf("the settings are %+v, %v", s, err)
	}
}

// TestPauseRefusals checks that Pause signals only the runner of the experiment.
func TestPauseRefusals(t *testing.T) {
	r := newRig(t)
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	pid, self := sleep.Process.Pid, os.Getpid()
	c := r.config(1, 1)
	pause := func() error {
		_, _, err := generation.Pause(t.Context(), c.Out, "village", generation.PauseOptions{})
		return err
	}
	if err := pause(); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("no experiment: %v", err)
	}
	record := func(pid int, start string, uid int) string {
		return fmt.Sprintf(`{"pid":%d,"start":%q,"uid":%d}`, pid, start, uid)
	}
	r.on = func(e generation.Event) {
		if e.Kind != generation.EventBegin {
			return
		}
		for text, kind := range map[string]segno.Kind{
			record(pid, proc.Start(pid), os.Geteuid()):     segno.KindRefused, // it does not have the lock
			record(pid, "1", os.Geteuid()):                 segno.KindRefused, // another process had the pid
			record(1, proc.Start(1), os.Geteuid()):         segno.KindRefused,
			record(-1, "", os.Geteuid()):                   segno.KindRefused,
			record(0, "", os.Geteuid()):                    segno.KindRefused,
			record(self, proc.Start(self), os.Geteuid()+1): segno.KindRefused, // of another user
			"{": segno.KindCorrupt,
		} {
			r.write(text, 0o600, "village/runner.json")
			if err := pause(); segno.KindOf(err) != kind {
				t.Errorf("%s: %v", text, err)
			}
		}
		if exists(r.path("village/pause.json")) {
			t.Error("a refused pause left a request")
		}
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !proc.Alive(pid, proc.Start(pid)) {
		t.Error("another process was ended")
	}
	if err := sleep.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = sleep.Wait() // it was killed
	if err := pause(); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("after the end: %v", err)
	}
}
