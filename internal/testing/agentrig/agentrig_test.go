package agentrig_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/executable"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// eachVersion runs do with an installed agent of the newest version and its model, if the test is drawn: the scenarios in
// e2e use the same functions. With SEGNO_SOAK it runs do with every version.
func eachVersion(t *testing.T, do func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server)) {
	t.Helper()
	t.Parallel()
	if short(t) || !soak.IsDrawn(t) {
		return
	}
	versions := agentrig.ClaudeVersions()
	if !soak.IsWhole() {
		versions = versions[len(versions)-1:]
	}
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			t.Cleanup(cancel)
			bin, err := agentrig.Install(ctx, version)
			if err != nil {
				t.Fatal(err)
			}
			model := fakemodel.New()
			url, stop, err := model.Listen()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			rig, err := agentrig.New(agentrig.TempDir(t), bin, url)
			if err != nil {
				t.Fatal(err)
			}
			do(t, ctx, rig, model)
		})
	}
}

// short reports whether the test must not run real agents, and logs that.
func short(t *testing.T) bool {
	if testing.Short() {
		t.Log("not run with -short: real agents are installed from the network")
	}
	return testing.Short()
}

// writing returns a prompt whose turn writes hello to a.txt and then says "all done".
func writing(rig *agentrig.Rig) string {
	return `write it <<fake [{"tool":"Write","input":{"file_path":"` + filepath.Join(rig.Project, "a.txt") + `","content":"hello"}},"all done"]>>`
}

// checkWritten checks the file of that turn, and that the model received the result.
func checkWritten(t *testing.T, rig *agentrig.Rig, model *fakemodel.Server) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(rig.Project, "a.txt"))
	if err != nil || string(content) != "hello" {
		t.Errorf("a.txt holds %q, %v", content, err)
	}
	calls := model.Calls()
	if len(calls) != 2 {
		t.Fatalf("%d model calls, want 2", len(calls))
	}
	results := calls[1].Results()
	if len(results) != 1 || results[0].Error || !strings.Contains(results[0].Text, "a.txt") {
		t.Errorf("the second call sends the results %+v", results)
	}
}

func TestPrint(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		res, err := rig.Print(ctx, writing(rig))
		if err != nil {
			t.Fatal(err)
		}
		out, err := res.Must()
		if err != nil {
			t.Fatal(err)
		}
		if out.Text != "all done" || out.SessionID == "" {
			t.Errorf("outcome %+v", out)
		}
		checkWritten(t, rig, model)
	})
}

func TestStream(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		s, err := rig.Stream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.Turn(ctx, writing(rig))
		if err != nil || first.Text != "all done" {
			t.Fatalf("first turn: %+v, %v", first, err)
		}
		checkWritten(t, rig, model)
		second, err := s.Turn(ctx, "and now?")
		if err != nil || second.Text != "ok" || second.SessionID != first.SessionID {
			t.Fatalf("second turn: %+v, %v", second, err)
		}
		if code, err := s.Close(ctx); code != 0 || err != nil {
			t.Errorf("closed with %d, %v", code, err)
		}
	})
}

func TestTUI(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		tui, err := rig.TUI(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tui.Kill()
		if err := tui.Turn(ctx, writing(rig), "all done"); err != nil {
			t.Fatal(err)
		}
		checkWritten(t, rig, model)
		if err := tui.Prompt(ctx, "/exit"); err != nil {
			t.Fatal(err)
		}
		if code, err := tui.Wait(ctx); code != 0 || err != nil {
			t.Errorf("exited with %d, %v", code, err)
		}
	})
}

func TestKill(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		p, err := rig.StartPrint(ctx, `<<fake [{"hang":true}]>>`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := model.WaitFor(ctx, fakemodel.Request.Call); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(ctx); code != -1 || err != nil {
			t.Errorf("killed, it exited with %d, %v", code, err)
		}
	})
}

func TestRewind(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		tui, err := rig.TUI(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tui.Kill()
		for _, err := range []error{
			tui.Turn(ctx, `first <<fake ["one"]>>`, "one"),
			tui.Turn(ctx, writing(rig), "all done"),
			tui.Rewind(ctx, 1, agentrig.RestoreCode),
			tui.Rewind(ctx, 1, agentrig.RestoreConversation),
			tui.Turn(ctx, writing(rig), "all done"),
			tui.Rewind(ctx, 1, agentrig.RestoreBoth),
			tui.Turn(ctx, `third <<fake ["three"]>>`, "three"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(filepath.Join(rig.Project, "a.txt")); !os.IsNotExist(err) {
			t.Errorf("a.txt is still there: %v", err)
		}
		calls := model.Calls()
		if last := calls[len(calls)-1]; last.HasText("write it") || !last.HasText("first") {
			t.Errorf("the model is sent %+v", last.Messages())
		}
	})
}

func TestInterrupt(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, model *fakemodel.Server) {
		tui, err := rig.TUI(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tui.Kill()
		if err := tui.Prompt(ctx, `<<fake [{"hang":true,"text":"so far\n\nand more\n\nand"}]>>`); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			tui.WaitText(ctx, "● so far"),
			tui.Interrupt(ctx),
			tui.Prompt(ctx, `quiet <<fake [{"hang":true}]>>`),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := model.WaitFor(ctx, func(r fakemodel.Request) bool { return r.Call() && r.HasText("quiet") }); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			tui.Interrupt(ctx),
			tui.Clear(ctx),
			tui.Turn(ctx, `<<fake ["again"]>>`, "again"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Hooks of the settings run with the rig's path, and receive the path of the transcript.
func TestHook(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, rig *agentrig.Rig, _ *fakemodel.Server) {
		bin := t.TempDir()
		if err := executable.Write(filepath.Join(bin, "note"), []byte("#!/bin/sh\ncat > \"$1\"\n")); err != nil {
			t.Fatal(err)
		}
		rig.Path = []string{bin}
		noted := filepath.Join(bin, "stop.json")
		if err := rig.WriteSettings(agentrig.Hook([]string{"Stop"}, "note", noted)); err != nil {
			t.Fatal(err)
		}
		res, err := rig.Print(ctx, "hello")
		if err != nil {
			t.Fatal(err)
		}
		file, err := rig.Transcript(res.Outcome.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := os.ReadFile(noted)
		if err != nil || !strings.Contains(string(payload), file) || !strings.Contains(string(payload), `"Stop"`) {
			t.Errorf("the hook was given %s, %v; want %s in it", payload, err, file)
		}
	})
}
