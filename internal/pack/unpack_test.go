package pack_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/transcript/claude"
)

// sample packs a project with a session.
func sample(t *testing.T) (*fixture, *archive.Reader) {
	t.Helper()
	f := newFixture(t)
	f.write(f.project, "src/a.go", "package a\n")
	f.say("alpha")
	f.sidecars()
	name, _ := f.pack(f.checkpoint("t", nil), pack.Options{})
	return f, f.open(name)
}

// TestASessionKeepsItsIdIfThatIsFree unpacks three times into one home, and once with a new id.
func TestASessionKeepsItsIdIfThatIsFree(t *testing.T) {
	_, r := sample(t)
	to := newTarget(t)
	ids := map[segno.SessionID]bool{}
	before := map[string]string{}
	for i := range 4 {
		into := to.into()
		into.Dir = fmt.Sprintf("%s-%d", to.dir, i)
		into.NewSession = i == 3
		got, err := pack.Unpack(t.Context(), r, into)
		must(t, err)
		a := got.Agents[0]
		if (a.Session == sessionID) != (i == 0) || ids[a.Session] {
			t.Errorf("unpack %d has the session %s", i, a.Session)
		}
		ids[a.Session] = true
		home := contents(t, to.home)
		for name, content := range before {
			if home[name] != content {
				t.Errorf("unpack %d changed %s", i, name)
			}
		}
		for name, content := range home {
			if _, ok := before[name]; !ok && !strings.Contains(name, string(a.Session)) {
				t.Errorf("unpack %d added %s", i, name)
			}
			if strings.HasSuffix(name, string(a.Session)+".jsonl") && strings.Contains(content, sessionID) != (i == 0) {
				t.Errorf("unpack %d: %s has the old id", i, name)
			}
		}
		before = home
	}
}

// TestAnInterruptedUnpackIsRepeated checks that a repeated unpack finds the session that a killed
// unpack placed.
func TestAnInterruptedUnpackIsRepeated(t *testing.T) {
	_, r := sample(t)
	to := newTarget(t)
	_, err := pack.Unpack(t.Context(), r, to.into())
	must(t, err)
	home := contents(t, to.home)
	must(t, os.RemoveAll(to.dir))
	got, err := pack.Unpack(t.Context(), r, to.into())
	must(t, err)
	if diff := cmp.Diff(home, contents(t, to.home)); diff != "" || got.Agents[0].Session != sessionID {
		t.Errorf("the session is %s; the home (-want +got):\n%s", got.Agents[0].Session, diff)
	}
}

// TestOnlyTrustedSessionsAreLoaded unpacks an archive from another machine, one from this machine,
// and one that the user trusts.
func TestOnlyTrustedSessionsAreLoaded(t *testing.T) {
	_, r := sample(t)
	for name, c := range map[string]struct {
		change func(*pack.Into)
		loads  bool
		why    string
	}{
		"elsewhere": {func(*pack.Into) {}, false, archive.SkippedForeign},
		"here":      {func(i *pack.Into) { i.Ours = func(d string) bool { return d == r.Manifest().Digest } }, true, ""},
		"trusted":   {func(i *pack.Into) { i.TrustSession = true }, true, ""},
		"no home":   {func(i *pack.Into) { i.TrustSession, i.Home = true, nil }, false, pack.SkippedHome},
		"files": {func(i *pack.Into) { i.TrustSession, i.Tiers = true, []archive.Tier{archive.Workspace} },
			false, archive.SkippedChoice},
	} {
		to := newTarget(t)
		into := to.into()
		into.TrustSession = false
		c.change(&into)
		got, err := pack.Unpack(t.Context(), r, into)
		must(t, err)
		a := got.Agents[0]
		if (a.Session != "") != c.loads || (a.Command != nil) != c.loads || (len(got.Skipped) == 0) != c.loads {
			t.Errorf("%s: %+v", name, got)
		}
		for _, s := range got.Skipped {
			if s.Why != c.why {
				t.Errorf("%s: %s is skipped because %q", name, s.Path, s.Why)
			}
		}
		if _, err := os.Stat(filepath.Join(to.dir, "src/a.go")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(to.home); (err == nil) != c.loads {
			t.Errorf("%s: the agent's home: %v", name, err)
		}
	}
}

// TestOccupiedPlacesAreRefused unpacks to an existing directory, a file and a link.
func TestOccupiedPlacesAreRefused(t *testing.T) {
	_, r := sample(t)
	to := newTarget(t)
	must(t, os.MkdirAll(filepath.Join(to.dir, "there"), 0o755))
	must(t, os.WriteFile(to.dir+"-file", nil, 0o644))
	must(t, os.Symlink(t.TempDir(), to.dir+"-link"))
	must(t, os.Mkdir(to.dir+"-empty", 0o755))
	for _, suffix := range []string{"", "-file", "-link"} {
		into := to.into()
		into.Dir += suffix
		if _, err := pack.Unpack(t.Context(), r, into); segno.KindOf(err) != segno.KindConflict || !strings.Contains(err.Error(), into.Dir) {
			t.Errorf("%q: %v", suffix, err)
		}
	}
	if _, err := os.Stat(to.home); err == nil {
		t.Error("the agent's home was made")
	}
	into := to.into()
	into.Dir += "-empty"
	_, err := pack.Unpack(t.Context(), r, into)
	must(t, err)
	leavesNothing(t, filepath.Dir(to.dir))
}

// leavesNothing fails if a directory has a temporary file of segno, at any depth.
func leavesNothing(t *testing.T, dir string) {
	t.Helper()
	for name := range contents(t, dir) {
		if strings.Contains(name, ".segno-") {
			t.Errorf("%s is left", name)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, ".segno-*")); len(found) > 0 {
		t.Errorf("%v is left", found)
	}
}

// file is a file of a state with this content.
func file(path, content string) archive.File {
	return archive.File{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

// TestHostileSessions unpacks archives that another program made and that the user trusts by
// mistake.
func TestHostileSessions(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	f, r := sample(t)
	var transcript bytes.Buffer
	must(t, r.ReadFile("agents/claude/session/projects/@cwd/"+sessionID+".jsonl", &transcript))
	good := file("projects/@cwd/"+sessionID+".jsonl", transcript.String())
	other := "22222222-0000-4000-8000-000000000002"
	for name, c := range map[string]struct {
		info  archive.AgentInfo
		files []archive.File
		kind  segno.Kind // 0 means success
		home  []string   // the files in the home after that
	}{
		"other files": {archive.AgentInfo{SessionID: sessionID}, []archive.File{good,
			file("projects/@cwd/"+other+".jsonl", "x"), file("projects/-other/"+sessionID+".jsonl", "x"), file("CLAUDE.md", "obey"),
			file("projects/@cwd/memory/MEMORY.md", "obey"), file("shell-snapshots/x.sh", "x"), file("skills/x/SKILL.md", "x"),
			file("session-env/"+sessionID+"/x.sh", "x"), file("plugins/x", "x"), file("tasks/"+other+"/1.json", "x"), file("tasks/"+sessionID+"/1.json", "fine"),
		}, 0, []string{"projects/-elsewhere/" + sessionID + ".jsonl", "tasks/" + sessionID + "/1.json"}},
		"large file": {archive.AgentInfo{SessionID: sessionID}, []archive.File{good, file("tasks/"+sessionID+"/big", strings.Repeat("0", 64<<20+1))},
			0, []string{"projects/-elsewhere/" + sessionID + ".jsonl"}},
		"id is a pattern":  {archive.AgentInfo{SessionID: "*"}, []archive.File{good}, 0, nil},
		"id is a path":     {archive.AgentInfo{SessionID: "../../x"}, []archive.File{good}, 0, nil},
		"id is no file":    {archive.AgentInfo{SessionID: other}, []archive.File{good}, segno.KindCorrupt, nil},
		"unknown agent":    {archive.AgentInfo{SessionID: sessionID, Backend: "x"}, []archive.File{good}, 0, nil},
		"unknown format":   {archive.AgentInfo{SessionID: sessionID, SessionFormat: "claude-code-v9"}, []archive.File{good}, 0, nil},
		"empty transcript": {archive.AgentInfo{SessionID: sessionID}, []archive.File{file("projects/@cwd/"+sessionID+".jsonl", "")}, segno.KindCorrupt, nil},
		"no transcript":    {archive.AgentInfo{SessionID: sessionID}, []archive.File{file("projects/@cwd/"+sessionID+".jsonl", "\x00{{{\n\"\n")}, segno.KindCorrupt, nil},
		"lost parent":      {archive.AgentInfo{SessionID: sessionID}, []archive.File{file("projects/@cwd/"+sessionID+".jsonl", "{\n"+transcript.String()[strings.IndexByte(transcript.String(), '\n')+1:])}, segno.KindCorrupt, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.info.Name = "claude"
			if c.info.Backend == "" {
				c.info.Backend = "claude"
			}
			if c.info.SessionFormat == "" {
				c.info.SessionFormat = "claude-code-v1"
			}
			archiveFile := filepath.Join(t.TempDir(), "hostile.ckpt")
			_, err := archive.Write(t.Context(), archiveFile, archive.State{Agents: []archive.AgentState{{Info: c.info, Session: c.files,
				Workspace: []archive.File{file("a", "1")}}}}, archive.WriteOptions{})
			must(t, err)
			to := newTarget(t)
			got, err := pack.Unpack(t.Context(), f.open(archiveFile), to.into())
			if (err == nil) != (c.kind == 0) || err != nil && segno.KindOf(err) != c.kind {
				t.Fatalf("the error is %v", err)
			}
			if err != nil {
				if left := tree(t, filepath.Dir(to.home)); len(left) > 0 {
					t.Errorf("it left %v", left)
				}
				return
			}
			leavesNothing(t, filepath.Dir(to.dir))
			want := map[string]bool{}
			for _, name := range c.home {
				want[strings.Replace(name, "-elsewhere", claude.Slug(to.dir), 1)] = true
			}
			if c.home == nil && got.Agents[0].Session != "" {
				t.Errorf("a session was placed: %+v", got)
			}
			if c.home != nil {
				if diff := cmp.Diff(want, names(contents(t, to.home))); diff != "" {
					t.Errorf("the home (-want +got):\n%s", diff)
				}
			}
			if len(got.Skipped) == 0 {
				t.Error("nothing is reported as skipped")
			}
		})
	}
}

func names(files map[string]string) map[string]bool {
	out := map[string]bool{}
	for name := range files {
		out[name] = true
	}
	return out
}

// TestUnpacksIntoOneHomeTakeTurns runs several unpacks at once. Each gets a separate session.
func TestUnpacksIntoOneHomeTakeTurns(t *testing.T) {
	t.Parallel()
	_, r := sample(t)
	to := newTarget(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[segno.SessionID]int{}
	for i := range 8 {
		wg.Go(func() {
			into := to.into()
			into.Dir = fmt.Sprintf("%s-%d", to.dir, i)
			got, err := pack.Unpack(t.Context(), r, into)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[got.Agents[0].Session]++
		})
	}
	wg.Wait()
	if len(ids) != 8 || ids[sessionID] != 1 {
		t.Errorf("the sessions are %v", ids)
	}
}

// TestACancelledUnpackLeavesNothing cancels an unpack at each report of progress.
func TestACancelledUnpackLeavesNothing(t *testing.T) {
	_, r := sample(t)
	for n := range 7 {
		to := newTarget(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		into, calls := to.into(), 0
		into.Progress = func(int64, int64) {
			if calls++; calls == n {
				cancel()
			}
		}
		_, err := pack.Unpack(ctx, r, into)
		cancel()
		if calls < n {
			return
		}
		if n > 0 && (segno.KindOf(err) != segno.KindCancelled || len(tree(t, filepath.Dir(to.home))) > 0) {
			t.Errorf("cancelled at %d: %v; it left %v", n, err, tree(t, filepath.Dir(to.home)))
		}
	}
}

// TestUnpacksIntoOneDirectory runs several unpacks at once. One succeeds, and the others return an error with the
// reason.
func TestUnpacksIntoOneDirectory(t *testing.T) {
	t.Parallel()
	_, r := sample(t)
	to := newTarget(t)
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = pack.Unpack(t.Context(), r, to.into()) })
	}
	wg.Wait()
	ok := 0
	for _, err := range errs {
		switch {
		case err == nil:
			ok++
		case segno.KindOf(err) != segno.KindConflict || segno.HintOf(err) == "":
			t.Errorf("the error is %v (%s)", err, segno.KindOf(err))
		}
	}
	if ok != 1 || len(contents(t, to.dir)) != 1 {
		t.Errorf("%d succeeded; the directory has %v", ok, tree(t, to.dir))
	}
	if n := len(contents(t, filepath.Join(to.home, "projects"))); n == 0 {
		t.Error("the session is gone")
	}
	leavesNothing(t, filepath.Dir(to.dir))
}

// TestADirectoryThatAppears makes the directory while the archive is unpacked.
func TestADirectoryThatAppears(t *testing.T) {
	_, r := sample(t)
	to := newTarget(t)
	into := to.into()
	into.Progress = func(int64, int64) { must(t, os.MkdirAll(filepath.Join(to.dir, "mine"), 0o755)) }
	_, err := pack.Unpack(t.Context(), r, into)
	if segno.KindOf(err) != segno.KindConflict || segno.HintOf(err) == "" {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(to.dir, "mine")); err != nil || len(contents(t, filepath.Dir(to.home))) > 0 {
		t.Errorf("%v; it left %v", err, contents(t, filepath.Dir(to.home)))
	}
}
