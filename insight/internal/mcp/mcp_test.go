package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/testing/wings"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	os.Exit(m.Run())
}

// rig is a store, a project, and the command that serves it.
type rig struct {
	*testing.T
	project, store string
	env            cli.Env
}

// session is the session of the agent in most tests.
const session = "session"

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, project: filepath.Join(dir, "project"), store: filepath.Join(dir, "store")}
	if err := os.Mkdir(r.project, 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = cli.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: t.Output(), Environ: os.Environ, Executable: os.Executable,
		Getenv: func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "home")}[name] },
		Getwd:  func() (string, error) { return r.project, nil }}
	return r
}

func (r *rig) timeline(do func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error) {
	r.Helper()
	place, err := local.FindPlace(r.env.Getenv, r.store)
	if err != nil {
		r.Fatal(err)
	}
	s, err := place.Open(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	rec, err := s.Register(r.Context(), r.project)
	if err != nil {
		r.Fatal(err)
	}
	tl, err := s.Timeline(rec, nil)
	if err == nil {
		err = do(r.Context(), s, tl)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// begin opens a turn of the session. pid is the process of its agent, or 0.
func (r *rig) begin(key string, session segno.SessionID, pid int) {
	r.Helper()
	r.timeline(func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		p := timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Source: segno.Source{Session: session, Dir: r.project}, Text: "prompt " + key}
		if pid != 0 {
			p.PID, p.PIDStart = pid, proc.Start(pid)
		}
		_, err := tl.BeginTurn(ctx, p)
		return err
	})
}

func (r *rig) end(key string, session segno.SessionID) {
	r.Helper()
	r.timeline(func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		_, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: segno.Source{Session: session, Dir: r.project}})
		return err
	})
}

// turns records turns, of which the n-th writes n to the file a.
func (r *rig) turns(n int) {
	r.Helper()
	r.write("a", "0\n")
	for i := 1; i <= n; i++ {
		key := fmt.Sprint("T", i)
		r.begin(key, session, 0)
		r.write("a", fmt.Sprintln(i))
		r.end(key, session)
	}
}

func (r *rig) write(name, content string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.project, name), []byte(content), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.project, name))
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

// segno runs the command, and returns its output.
func (r *rig) segno(args ...string) string {
	r.Helper()
	var out strings.Builder
	env := r.env
	env.Stdout = &out
	if code := cli.Main(r.Context(), env, wings.All(), append([]string{"--store", r.store}, args...)); code != 0 {
		r.Fatalf("segno %s: exit code %d", strings.Join(args, " "), code)
	}
	return out.String()
}

// connect starts 'segno mcp' and connects a client.
func (r *rig) connect(args ...string) *mcp.ClientSession {
	r.Helper()
	fromServer, toServer, ended := r.start(args...)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test\x1b[31m-agent"}, nil).Connect(r.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		client.Close()
		if code := <-ended; code != 0 {
			r.Errorf("segno mcp ended with %d", code)
		}
	})
	return client
}

// reply is a result of a tool.
type reply struct {
	isError bool
	text    string
	fields  map[string]any
}

func (r *rig) call(c *mcp.ClientSession, tool string, args map[string]any) reply {
	r.Helper()
	res, err := c.CallTool(r.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return reply{isError: true, text: err.Error()}
	}
	out := reply{isError: res.IsError, text: res.Content[0].(*mcp.TextContent).Text}
	data, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &out.fields)
	}
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// result returns the field "result" of a reply that is not an error.
func (r *rig) result(c *mcp.ClientSession, tool string, args map[string]any) (result any, text string) {
	r.Helper()
	out := r.call(c, tool, args)
	if out.isError {
		r.Fatalf("%s: %s", tool, out.text)
	}
	return out.fields["result"], out.text
}

func (r *rig) operations() (ops []segno.Operation) {
	r.Helper()
	r.timeline(func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		for op, err := range s.Operations(ctx, tl.Workspace.ID()) {
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		return nil
	})
	return ops
}

// TestAnAgentReads compares the results of the tools with those of the verbs.
func TestAnAgentReads(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	c := r.connect()
	for _, tc := range []struct {
		tool string
		args map[string]any
		verb []string
	}{
		{"log", nil, []string{"log", "--limit=20"}},
		{"log", map[string]any{"paths": []string{"a"}, "limit": 1}, []string{"log", "--limit=1", "--", "a"}},
		{"show", map[string]any{"checkpoint": "t1"}, []string{"show", "t1"}},
		{"diff", map[string]any{"from": "t1", "to": "t2"}, []string{"diff", "t1", "t2"}},
		{"cat", map[string]any{"checkpoint": "t1", "path": "a"}, []string{"cat", "t1:a"}},
		{"blame", map[string]any{"path": "a"}, []string{"blame", "a"}},
		{"blame", map[string]any{"path": "a", "checkpoint": "t1", "to": 1}, []string{"blame", "--at=t1", "-L1,1", "a"}},
		{"threads", nil, []string{"threads"}},
		{"status", nil, []string{"status"}},
	} {
		got, text := r.result(c, tc.tool, tc.args)
		var want any
		if err := json.Unmarshal([]byte(r.segno(append([]string{"--json"}, tc.verb...)...)), &want); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if string(g) != string(w) || text == "" {
			t.Errorf("%s: the result is\n%s\nthe verb prints\n%s", tc.tool, g, w)
		}
	}
	if _, text := r.result(c, "search", map[string]any{"text": "prompt T2"}); !strings.Contains(text, "t2") {
		t.Errorf("search found %s", text)
	}
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if !tool.Annotations.ReadOnlyHint {
			t.Errorf("a server without moves offers %s", tool.Name)
		}
	}
	if out := r.call(c, "undo", nil); !out.isError || r.read("a") != "2\n" {
		t.Errorf("a server without moves answered %+v", out)
	}
}

// TestAnAgentMoves undoes, repeats the call with its key, also in another server, and meets a conflict.
func TestAnAgentMoves(t *testing.T) {
	r := newRig(t)
	r.turns(3)
	c := r.connect("--allow-moves")
	undo := map[string]any{"key": "k1"}
	out, _ := r.result(c, "undo", undo)
	if got := out.(map[string]any)["outcome"]; got != "APPLIED" || r.read("a") != "2\n" {
		t.Fatalf("undo: %v, the file is %q", out, r.read("a"))
	}
	for _, again := range []*mcp.ClientSession{c, r.connect("--allow-moves")} {
		out, text := r.result(again, "undo", undo)
		if out.(map[string]any)["outcome"] != "APPLIED" || !strings.Contains(text, "made before") || r.read("a") != "2\n" {
			t.Errorf("the same key again: %s, the file is %q", text, r.read("a"))
		}
	}
	if ops := r.operations(); len(ops) != 1 || ops[0].Actor != "test[31m-agent" {
		t.Errorf("the log has %+v", ops)
	}
	if out := r.call(c, "redo", map[string]any{"key": "k1"}); !out.isError || out.fields["kind"] != "conflict" {
		t.Errorf("the key of the undo for a redo: %+v", out)
	}
	r.write("a", "mine\n")
	out, text := r.result(c, "undo", nil)
	conflicts := out.(map[string]any)["conflicts"].([]any)
	if out.(map[string]any)["outcome"] != "CONFLICT" || len(conflicts) != 1 || !strings.Contains(conflicts[0].(map[string]any)["diff"].(string), "-mine") ||
		!strings.Contains(text, "-mine") || r.read("a") != "mine\n" {
		t.Errorf("undo of a file that the user changed: %s", text)
	}
	r.result(c, "restore", map[string]any{"checkpoint": "t3", "paths": []string{"a"}})
	if r.read("a") != "3\n" {
		t.Errorf("restore left %q", r.read("a"))
	}
	saved, _ := r.result(c, "save", map[string]any{"message": "mine", "key": "s"})
	again, _ := r.result(c, "save", map[string]any{"message": "mine", "key": "s"})
	id := func(v any) any { return v.(map[string]any)["saved"].(map[string]any)["id"] }
	if id(saved) != id(again) {
		t.Errorf("the same key saved %v and %v", id(saved), id(again))
	}
	fork, _ := r.result(c, "fork", map[string]any{"checkpoint": "t1", "name": "try"})
	dir := fork.(map[string]any)["fork"].(map[string]any)["dir"].(string)
	if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "1\n" || dir != filepath.Join(filepath.Dir(r.project), "try") {
		t.Errorf("the fork in %s has %q, %v", dir, data, err)
	}
}

// TestAnAgentUndoesInItsOwnTurn gets REQUESTED. The move is made when the turn ends, and the user can see and cancel it before.
func TestAnAgentUndoesInItsOwnTurn(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	c := r.connect("--allow-moves")
	r.begin("T3", session, 0)
	ask := map[string]any{"key": "k"}
	for range 2 {
		out, _ := r.result(c, "undo", ask)
		q, _ := out.(map[string]any)["requested"].(map[string]any)
		if out.(map[string]any)["outcome"] != "REQUESTED" || q["move"] != "undo t2" || r.read("a") != "2\n" {
			t.Fatalf("undo: %v, the file is %q", out, r.read("a"))
		}
	}
	for _, verb := range [][]string{{"status"}, {"op", "log"}} {
		if out := r.segno(verb...); !strings.Contains(out, "'undo t2' via test[31m-agent") {
			t.Errorf("segno %v:\n%s", verb, out)
		}
	}
	if out := r.call(c, "redo", nil); !out.isError || out.fields["hint"] == "" {
		t.Errorf("redo: %+v", out)
	}
	r.segno("op", "cancel")
	if out, _ := r.result(c, "undo", map[string]any{"turn": "t2", "key": "second"}); out.(map[string]any)["outcome"] != "REQUESTED" {
		t.Errorf("undo after a cancelled one: %v", out)
	}
	r.end("T3", session)
	if r.read("a") != "1\n" {
		t.Errorf("after the turn the file is %q", r.read("a"))
	}
	if out, text := r.result(c, "undo", map[string]any{"key": "second"}); out.(map[string]any)["outcome"] != "APPLIED" || r.read("a") != "1\n" {
		t.Errorf("the key after the turn: %s", text)
	}
	if n := len(r.operations()); n != 1 {
		t.Errorf("the log has %d operations", n)
	}
}

// TestTwoRequestedMoves need a name to be cancelled.
func TestTwoRequestedMoves(t *testing.T) {
	r := newRig(t)
	r.turns(1)
	r.begin("U1", "other", 0)
	r.end("U1", "other")
	for key, session := range map[string]segno.SessionID{"T2": session, "U2": "other"} {
		r.begin(key, session, 0)
	}
	r.timeline(func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		turns, err := tl.Spool.Turns(ctx)
		for _, t := range turns {
			if err == nil {
				_, err = tl.WithActor("agent").RequestMove(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: t.Thread})
			}
		}
		return err
	})
	var told strings.Builder
	env := r.env
	env.Stderr = &told
	code := cli.Main(t.Context(), env, wings.All(), []string{"--store", r.store, "op", "cancel"})
	if code != 2 || !strings.Contains(told.String(), "2 moves wait") || !strings.Contains(told.String(), "hint: ") {
		t.Errorf("exit code %d, %s", code, told.String())
	}
}

// TestTheThreadIsThatOfTheTurn lets an agent undo while the newest thread of the directory is another agent's.
func TestTheThreadIsThatOfTheTurn(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	r.begin("O1", "other", 0)
	r.write("b", "of the other\n")
	r.end("O1", "other")
	c := r.connect("--allow-moves")
	r.begin("N1", "new", os.Getpid())
	if out := r.call(c, "undo", nil); !out.isError || out.fields["hint"] == "" || r.read("b") != "of the other\n" {
		t.Errorf("undo in the first turn of a thread: %+v", out)
	}
	r.end("N1", "new")
	r.begin("T3", session, os.Getpid())
	out, _ := r.result(c, "undo", nil)
	if q, _ := out.(map[string]any)["requested"].(map[string]any); q["move"] != "undo t2" {
		t.Errorf("undo in a turn of the first thread: %v", out)
	}
	r.end("T3", session)
	if r.read("a") != "1\n" || r.read("b") != "of the other\n" {
		t.Errorf("the files are %q and %q", r.read("a"), r.read("b"))
	}
}

// wantMovedOnce checks that one of three turns is undone, by one operation.
func (r *rig) wantMovedOnce(what string) {
	r.Helper()
	if ops := r.operations(); len(ops) != 1 || r.read("a") != "2\n" {
		r.Errorf("%s: the file is %q, the log has %+v", what, r.read("a"), ops)
	}
}

// TestAKeyMovesOnce sends a move with one key several times at once, to several servers.
func TestAKeyMovesOnce(t *testing.T) {
	r := newRig(t)
	r.turns(3)
	var calls sync.WaitGroup
	for range 3 {
		c := r.connect("--allow-moves")
		for range 2 {
			calls.Go(func() { r.call(c, "undo", map[string]any{"key": "k"}) })
		}
	}
	calls.Wait()
	r.wantMovedOnce("at once")
}

// TestARepeatedCallDoesNotHideConflicts repeats an undo that left a conflict. The log of operations has no conflicts.
func TestARepeatedCallDoesNotHideConflicts(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	r.write("a", "mine\n")
	c := r.connect("--allow-moves")
	if _, text := r.result(c, "undo", map[string]any{"key": "k"}); !strings.HasPrefix(text, "CONFLICT undo") {
		t.Fatal(text)
	}
	if _, text := r.result(c, "undo", map[string]any{"key": "k"}); !strings.Contains(text, "conflicts that it left are not listed again") {
		t.Error(text)
	}
}

// TestAKeyMovesOnceWhateverFails lets the disk fail from some operation of a move on, and repeats the call in another server.
func TestAKeyMovesOnceWhateverFails(t *testing.T) {
	undo := map[string]any{"key": "k"}
	withFaults := func(faults *faultfs.Faults) *rig {
		r := newRig(t)
		r.turns(3)
		r.env.Place = func(p *local.Place) { p.FS = faults.Wrap(vfs.OS) }
		r.call(r.connect("--allow-moves"), "undo", undo)
		r.env.Place = nil
		return r
	}
	complete := faultfs.FailAt(-1)
	withFaults(complete)
	sample := faultfs.Sample(t, complete.Trace())
	for _, n := range sample[:min(len(sample), soak.Count(t, 4, len(sample)))] {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		r := withFaults(faults)
		r.result(r.connect("--allow-moves"), "undo", undo)
		r.wantMovedOnce(fmt.Sprintf("after a fault at operation %d of %v", n, faults.Trace()))
	}
}

// TestHostileArguments returns an error with a hint to the model, and moves nothing.
func TestHostileArguments(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	c := r.connect("--allow-moves")
	for _, tc := range []struct {
		tool string
		args map[string]any
	}{
		{"show", map[string]any{"checkpoint": "--store=/tmp/other"}},
		{"show", map[string]any{"checkpoint": "t1", "store": "/tmp/other"}},
		{"show", map[string]any{"checkpoint": strings.Repeat("x", 1<<16)}},
		{"diff", map[string]any{"from": "a.ckpt", "to": "--conflicts"}},
		{"diff", map[string]any{"from": "x.ckpt", "to": "y.ckpt"}},
		{"cat", map[string]any{"checkpoint": "t1", "path": "../../etc/passwd"}},
		{"cat", map[string]any{"checkpoint": "t1"}},
		{"blame", map[string]any{"path": "../../etc/passwd"}},
		{"blame", map[string]any{"path": "a", "from": -1}},
		{"log", map[string]any{"limit": 1 << 30}},
		{"search", map[string]any{"text": "/(/"}},
		{"search", map[string]any{"text": "a", "all": true}},
		{"undo", map[string]any{"turns": -1}},
		{"undo", map[string]any{"turn": "t2; rm -rf /"}},
		{"undo", map[string]any{"turn": "t0"}}, // 0 is the default of a request
		{"undo", map[string]any{"paths": []string{"/etc/passwd"}}},
		{"undo", map[string]any{"force": true}},
		{"restore", map[string]any{"checkpoint": "t1", "only": "everything"}},
		{"fork", map[string]any{"name": "../../other"}},
		{"fork", map[string]any{"name": ".."}},
		{"save", map[string]any{"message": "-x\x00"}},
		{"op", nil},
	} {
		if out := r.call(c, tc.tool, tc.args); !out.isError {
			t.Errorf("%s %.80v: %s", tc.tool, tc.args, out.text)
		}
	}
	if ops := r.operations(); r.read("a") != "2\n" || len(ops) != 0 {
		t.Errorf("the file is %q, the log has %+v", r.read("a"), ops)
	}
	elsewhere := r.connect("--allow-moves", "-C", t.TempDir())
	for _, tool := range []string{"log", "threads", "search", "status", "undo", "save"} {
		args := map[string]any{}
		if tool == "search" {
			args["text"] = "prompt"
		}
		if out := r.call(elsewhere, tool, args); !out.isError || out.fields["hint"] == "" || strings.Contains(out.text, "prompt T") || strings.Contains(out.text, r.project) {
			t.Errorf("%s in a directory that is not recorded: %+v", tool, out)
		}
	}
	if out := r.call(c, "show", map[string]any{"checkpoint": "t99"}); out.fields["kind"] != "not_found" || out.fields["hint"] == "" {
		t.Errorf("an unknown checkpoint: %+v", out)
	}
}

// TestACommitNamesNoCheckpointOfAnotherDirectory commits with the trailer of a checkpoint of another project in the same store,
// as a clone of that project or an injected command could.
func TestACommitNamesNoCheckpointOfAnotherDirectory(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("install the Debian package git, which makes the commits")
	}
	r := newRig(t)
	other := *r
	other.project = t.TempDir()
	other.begin("OTHER", "other", 0)
	other.write("a", "secret\n")
	other.end("OTHER", "other")
	r.turns(1)
	head := func(r *rig) (id segno.CommitID) {
		r.timeline(func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
			thread, err := tl.CurrentThread(ctx)
			if err != nil {
				return err
			}
			h, err := s.Head(ctx, thread)
			id = h.Head
			return err
		})
		return id
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", r.project, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "own\n\n"+cli.GitTrailer+": "+string(head(r)))
	git("commit", "-q", "--allow-empty", "-m", "other\n\n"+cli.GitTrailer+": "+string(head(&other)))
	c := r.connect()
	if _, text := r.result(c, "show", map[string]any{"checkpoint": "HEAD~1"}); !strings.Contains(text, "prompt T1") {
		t.Errorf("the checkpoint of the own commit: %s", text)
	}
	for tool, args := range map[string]map[string]any{"show": {"checkpoint": "HEAD"}, "blame": {"checkpoint": "HEAD", "path": "a"}} {
		if out := r.call(c, tool, args); !out.isError || strings.Contains(out.text, "OTHER") || strings.Contains(out.text, "secret") || strings.Contains(out.text, other.project) {
			t.Errorf("%s of another project: %+v", tool, out)
		}
	}
}

// TestLargeResultsAreCut bounds a result, which then names what is missing.
func TestLargeResultsAreCut(t *testing.T) {
	r := newRig(t)
	r.turns(1)
	r.begin("T2", session, 0)
	r.write("large", strings.Repeat("0123456789\n", 1<<17))
	for i := range 1500 {
		r.write(fmt.Sprintf("a file with a long name %060d", i), "")
	}
	r.end("T2", session)
	c := r.connect()
	for tool, args := range map[string]map[string]any{"show": {"checkpoint": "t2"}, "cat": {"checkpoint": "t2", "path": "large"}, "diff": {"from": "t1", "to": "t2"}} {
		out := r.call(c, tool, args)
		data, err := json.Marshal(out.fields)
		if err != nil {
			t.Fatal(err)
		}
		cuts, _ := out.fields["cut"].([]any)
		if len(data) > 100<<10 || len(out.text) > 20<<10 || len(cuts) == 0 || !strings.Contains(out.text, "cut") {
			t.Errorf("%s: %d bytes of JSON and %d of text, cut: %v", tool, len(data), len(out.text), cuts)
		}
	}
}

// TestTheClientEnds lets a client leave in the middle of a call.
func TestTheClientEnds(t *testing.T) {
	r := newRig(t)
	r.turns(1)
	c := r.connect()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "log"})
	if err == nil || !slices.Contains([]error{context.DeadlineExceeded, context.Canceled}, ctx.Err()) {
		t.Errorf("the call ended with %v", err)
	}
}
