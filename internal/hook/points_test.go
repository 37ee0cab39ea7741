package hook

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// newestTurn calls do with the newest checkpoint of a turn.
func (c *scene) newestTurn(do func(ctx context.Context, st *local.Store, r *timeline.Timeline, turn *segno.Checkpoint) error) {
	c.Helper()
	c.as(segno.Lease{}, func(ctx context.Context, st *local.Store, r *timeline.Timeline) error {
		for cp, err := range st.Checkpoints(ctx, segno.CheckpointQuery{}) {
			if err != nil || cp.Kind == segno.CheckpointTurn {
				return orElse(err, func() error { return do(ctx, st, r, &cp) })
			}
		}
		return segno.NewError(segno.KindNotFound, "find turn", "", nil)
	})
}

func orElse(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// point returns the files at the end of a call of the newest turn, as [scene.files] does, and the paths that are not certain.
func (c *scene) point(call int) (files string, unknown []string) {
	c.Helper()
	c.newestTurn(func(ctx context.Context, st *local.Store, r *timeline.Timeline, turn *segno.Checkpoint) error {
		at, p, err := r.AtPoint(ctx, turn, call)
		if err != nil {
			return err
		}
		all, err := r.Workspace.Diff(ctx, segno.Hash{}, at.Tree())
		var text []string
		for _, x := range all {
			if !x.To.HasContent() {
				continue
			}
			content, getErr := st.Objects().Get(ctx, x.To.Hash)
			if err = getErr; err != nil {
				break
			}
			text = append(text, x.Path+"="+string(content))
		}
		files, unknown = strings.Join(text, " "), p.Unknown
		return err
	})
	return files, unknown
}

func (c *scene) wantPoint(call int, want string, unknown ...string) {
	c.Helper()
	if got, names := c.point(call); got != want || !slices.Equal(names, unknown) {
		c.Errorf("after call %d the files are %q without %q, want %q without %q", call, got, names, want, unknown)
	}
}

func (c *scene) reads(key, id, name string) {
	c.Helper()
	input := map[string]any{"file_path": filepath.Join(c.project, name)}
	c.begins(key, id, "Read", input)
	c.ends(key, id, "Read", input)
}

// TestPointsInsideATurn checks the files after each call of a turn, and which of them are certain.
func TestPointsInsideATurn(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "b": "0", "made": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.reads("p1", "t2", "a")
	c.writes("p1", "t3", "src/new", "1")
	c.writes("p1", "t4", "a", "2")
	c.waitForClock()
	c.runs("p1", "t5", "make", func() { c.write("made", "1"); c.write("b", "1") })
	c.writes("p1", "t6", "b", "2")
	c.runs("p1", "t7", "make again", func() { c.write("made", "2"); c.waitForClock() })
	c.writes("p1", "t8", "src/new", "2")
	c.runs("p1", "t9", "ls", func() {})
	c.stops("p1")
	c.wantPoint(1, "a=1 b=0 made=0")
	c.wantPoint(2, "a=1 b=0 made=0")
	c.wantPoint(3, "a=1 b=0 made=0 src/new=1")
	c.wantPoint(4, "a=2 b=0 made=0 src/new=1")
	c.wantPoint(5, "a=2 b=0 made=0 src/new=1", "b", "made")
	c.wantPoint(6, "a=2 b=2 made=0 src/new=1", "made")
	c.wantPoint(7, "a=2 b=2 made=2 src/new=1")
	c.wantPoint(8, "a=2 b=2 made=2 src/new=2")

	moved, err := c.moves(timeline.MoveRequest{Verb: segno.VerbRestore, To: c.line()[1].ID, Point: 3, Name: "t1.3", Scope: timeline.ScopeFiles})
	if err != nil {
		t.Fatal(err)
	}
	c.wantFiles("a=1 b=0 made=0 src/new=1")
	if p := moved.Plan; p.Point == nil || !p.Point.IsExact() || p.Session != nil || moved.Head.Kind != segno.CheckpointRestore || moved.Head.Label != "restore t1.3 --files" {
		t.Errorf("the plan is %+v, the head %+v", p, moved.Head)
	}
	if _, err := c.moves(timeline.MoveRequest{Verb: segno.VerbOpUndo}); err != nil {
		t.Fatal(err)
	}
	c.wantFiles("a=2 b=2 made=2 src/new=2")
	c.newestTurn(func(ctx context.Context, st *local.Store, _ *timeline.Timeline, turn *segno.Checkpoint) error {
		kept := map[segno.Hash]bool{}
		err := st.NewTrace()(ctx, st.Objects(), *turn, func(h segno.Hash) bool { kept[h] = true; return true })
		if !kept[segno.HashOf([]byte("1"))] || !kept[turn.Points] {
			t.Error("a collection would remove what the points need")
		}
		return err
	})
	c.wantNoFailures()
}

// TestPointsOfASlashCommand checks the files after the calls of a turn that begins with a slash command. Claude Code runs the commands in the
// text of the slash command before the first call, and calls no hook for them.
func TestPointsOfASlashCommand(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "made": "0"})
	c.sendEvent("UserPromptSubmit", "prompt_id", "p1", "prompt", "/generate")
	c.waitForClock()
	c.write("made", "1")
	c.waitForClock()
	c.agent(`"type":"user","promptId":"p1","permissionMode":"default","message":{"role":"user","content":"<command-name>/generate</command-name>"}`)
	c.writes("p1", "t1", "a", "1")
	c.writes("p1", "t2", "a", "2")
	c.stops("p1")
	c.wantPoint(1, "a=1 made=1")
	c.wantPoint(2, "a=2 made=1")
	c.wantNoFailures()
}

// TestPointsOfASkill is TestPointsOfASlashCommand for a skill that the model loads: its commands run in this call.
func TestPointsOfASkill(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "made": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	skill := map[string]any{"skill": "generate"}
	c.waitForClock()
	c.begins("p1", "t2", "Skill", skill)
	c.waitForClock()
	c.write("made", "1")
	c.waitForClock()
	c.ends("p1", "t2", "Skill", skill)
	c.writes("p1", "t3", "a", "2")
	c.stops("p1")
	c.wantPoint(1, "a=1 made=0")
	c.wantPoint(2, "a=1 made=1")
	c.wantPoint(3, "a=2 made=1")
	c.wantNoFailures()
}

// TestPointsBeforeAChangeIsTakenBack sets a written file aside and restores it later, as git stash does, and replaces a directory
// by one whose file is older. In between, nothing proves what the file was.
func TestPointsBeforeAChangeIsTakenBack(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "build/x": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.runs("p1", "t2", "git stash; make", func() { c.write("a", "0"); c.write("new/x", "1"); c.waitForClock() })
	c.writes("p1", "t3", "b", "1")
	c.runs("p1", "t4", "git stash pop; rm -r build; mv new build", func() {
		c.write("a", "1")
		c.remove("build/x")
		c.remove("build")
		c.rename("new", "build")
		c.waitForClock()
	})
	c.writes("p1", "t5", "b", "2")
	c.stops("p1")
	c.wantPoint(1, "a=1 build/x=0")
	c.wantPoint(2, "a=1 build/x=0", "a", "build/x")
	c.wantPoint(3, "a=1 b=1 build/x=0", "a", "build/x")
	c.wantPoint(5, "a=1 b=2 build/x=1")
	c.wantNoFailures()
}

// TestPointsThatAnOlderVersionCollected traces a turn whose list of saved files is gone: a version of segno that does not know
// the list removes it in a collection. The present version must still be able to collect.
func TestPointsThatAnOlderVersionCollected(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.writes("p1", "t1", "a", "1")
	c.stops("p1")
	c.newestTurn(func(ctx context.Context, st *local.Store, _ *timeline.Timeline, turn *segno.Checkpoint) error {
		turn.Points = segno.HashOf([]byte("gone"))
		seen := false
		err := st.NewTrace()(ctx, st.Objects(), *turn, func(h segno.Hash) bool { seen = seen || h == turn.Points; return true })
		if !seen {
			t.Error("a check would not report the missing list")
		}
		return err
	})
}

// TestPointsOfPatches checks files that one call of Codex's tool writes, renames and deletes.
func TestPointsOfPatches(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0", "dir/b": "0"})
	patch := func(id, text string, act func()) {
		input := map[string]any{"command": "*** Begin Patch\n" + text + "*** End Patch"}
		c.begins("p1", id, "apply_patch", input)
		act()
		c.ends("p1", id, "apply_patch", input)
	}
	c.asks("p1", "one")
	patch("t1", "*** Update File: a\n*** Move to: moved\n", func() { c.rename("a", "moved") })
	patch("t2", "*** Add File: other/x\n+1\n*** Delete File: dir/b\n", func() { c.write("other/x", "1"); c.remove("dir/b") })
	patch("t3", "*** Delete File: other/x\n", func() { c.remove("other/x"); c.remove("other") })
	c.stops("p1")
	c.wantPoint(1, "dir/b=0 moved=0")
	c.wantPoint(2, "moved=0 other/x=1")
	c.wantPoint(3, "moved=0")
	c.wantNoFailures()
}

// TestWhatIsNotSavedAfterACall checks that no content of a protected or large file reaches the spool, and that the point is
// then not exact.
func TestWhatIsNotSavedAfterACall(t *testing.T) {
	secret := "hunter2 " + strings.Repeat("s", 100)
	for name, tc := range map[string]struct {
		path, content string
		rules         string
		before        func(c *scene)
		noSteps       bool
	}{
		"a path in .segnoignore":            {path: ".env", content: secret, rules: ".env\n"},
		"a directory in .segnoignore":       {path: "private/x/y", content: secret, rules: "private/\n"},
		"below .git":                        {path: ".git/config", content: secret},
		"below a directory that tools make": {path: "node_modules/m/index.js", content: secret, before: func(c *scene) { c.write("package.json", "{}") }},
		"a large file":                      {path: "big", content: secret + strings.Repeat("x", 5<<20)},
		"outside":                           {path: "../outside", content: secret},
		"through a link to the outside": {path: "link/x", content: secret, before: func(c *scene) {
			if err := os.Symlink(t.TempDir(), filepath.Join(c.project, "link")); err != nil {
				c.Fatal(err)
			}
		}},
		"rules that the agent removed": {path: ".env", content: secret, rules: ".env\n", before: func(c *scene) {
			c.asks("p0", "zero")
			c.stops("p0")
		}},
		"rules that the agent deleted": {path: ".env", content: secret, rules: ".env\n"},
		"no steps":                     {path: "a", content: secret, noSteps: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newScene(t, map[string]string{"f": "0"})
			if tc.rules != "" {
				c.write(".segnoignore", tc.rules)
			}
			if tc.before != nil {
				tc.before(c)
			}
			c.asks("p1", "one")
			c.waitForClock()
			if strings.Contains(name, "removed") {
				c.write(".segnoignore", "")
			} else if strings.Contains(name, "deleted") {
				c.remove(".segnoignore")
			}
			input := map[string]any{"file_path": filepath.Join(c.project, tc.path), "content": "short"}
			c.begins("p1", "t1", "Write", input)
			c.write(tc.path, tc.content)
			var out strings.Builder
			Run(t.Context(), "claude", Event{Place: c.place, Stdin: strings.NewReader(c.payload("PostToolUse", "prompt_id", "p1", "tool_name", "Write",
				"tool_use_id", "t1", "tool_input", input)), Stdout: &out, Getenv: func(string) string { return "" }, NoSteps: tc.noSteps})
			for call := range c.place.Spool().SavedCalls(t.Context(), "p1") {
				for _, f := range call.Files {
					if len(f.Content) > 0 || f.Entity.HasContent() {
						t.Errorf("the hook saved %q: %+v", f.Path, f.Entity)
					}
				}
			}
			c.wantNoFailures()
		})
	}
}

// TestAPointAfterAFault fails each operation of the hook after a call, and damages the line that it wrote. The turn is
// recorded all the same, and no point has a wrong file that counts as certain.
func TestAPointAfterAFault(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	play := func(t *testing.T, after func(c *scene, end func(fsys vfs.FS))) {
		c := newScene(t, map[string]string{"a": "0", "b": "0"})
		c.asks("p1", "one")
		input := map[string]any{"file_path": filepath.Join(c.project, "a"), "content": "1"}
		c.begins("p1", "t1", "Write", input)
		c.write("a", "1")
		fsys := c.place.FS
		after(c, func(faulty vfs.FS) {
			c.place.FS = faulty
			c.ends("p1", "t1", "Write", input)
			c.place.FS = fsys
		})
		c.writes("p1", "t2", "a", "2")
		c.writes("p1", "t3", "b", "3")
		c.stops("p1")
		c.wantFiles("a=2 b=3")
		got, unknown := c.point(1)
		if got != "a=1 b=0" && !slices.Equal(unknown, []string{"a"}) {
			t.Errorf("after call 1 the files are %q without %q", got, unknown)
		}
		c.wantPoint(2, "a=2 b=0")
		c.wantPoint(3, "a=2 b=3")
	}
	complete := faultfs.FailAt(-1)
	play(t, func(_ *scene, end func(vfs.FS)) { end(complete.Wrap(vfs.OS)) })
	for n := range complete.Trace() {
		t.Run(fmt.Sprint("fault ", n), func(t *testing.T) {
			play(t, func(_ *scene, end func(vfs.FS)) { end(faultfs.FailAt(n).Wrap(vfs.OS)) })
		})
	}
	t.Run("full disk", func(t *testing.T) {
		play(t, func(_ *scene, end func(vfs.FS)) {
			disk := &faultfs.Limited{FS: vfs.OS}
			disk.Full.Store(true)
			end(disk)
		})
	})
	for _, cut := range []int{1, 2, 40, 100} {
		t.Run(fmt.Sprint("torn by ", cut), func(t *testing.T) {
			play(t, func(c *scene, end func(vfs.FS)) {
				end(vfs.OS)
				files, err := filepath.Glob(filepath.Join(c.place.Store, "turns", "*.jsonl"))
				if err != nil || len(files) != 1 {
					t.Fatal(files, err)
				}
				fi, err := os.Stat(files[0])
				if err == nil {
					err = os.Truncate(files[0], fi.Size()-int64(cut))
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestAnyPoints compares the points of random turns with the files that were in the directory after each call. A path that
// counts as certain has the same content.
func TestAnyPoints(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	soak.Rapid(t, 5, 2000)
	rapid.Check(t, func(rt *rapid.T) {
		comparePoints(rt, newScene(t, map[string]string{"a": "0", "b": "0", "d/c": "0"}))
	})
}

// turnPlayer makes random calls of one turn.
type turnPlayer struct {
	*rapid.T
	c         *scene
	n         int
	byCommand map[string]bool // paths whose content a command wrote last
	held      []map[string]string
}

func comparePoints(t *rapid.T, c *scene) {
	p := &turnPlayer{T: t, c: c, byCommand: map[string]bool{}}
	c.asks("p1", "one")
	for range rapid.IntRange(1, 9).Draw(t, "calls") {
		p.call()
	}
	c.writes("p1", "last", "z", "z") // so that something is saved
	p.held = append(p.held, p.present())
	c.stops("p1")
	certain := 0
	for i, want := range p.held {
		files, unknown := c.point(i + 1)
		got := parseFiles(files)
		for name := range merged(got, want) {
			if got[name] != want[name] && !slices.Contains(unknown, name) {
				t.Errorf("after call %d, %s is %q, and was %q", i+1, name, got[name], want[name])
			} else if got[name] == want[name] {
				certain++
			}
		}
	}
	if certain == 0 {
		t.Error("no file of any point is right")
	}
	c.wantNoFailures()
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func parseFiles(text string) map[string]string {
	all := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, content, _ := strings.Cut(word, "=")
		all[name] = content
	}
	return all
}

func (p *turnPlayer) present() map[string]string { return parseFiles(p.c.files()) }

// call makes one call. A command removes no file that a command wrote, because nothing shows that such a file existed.
func (p *turnPlayer) call() {
	p.n++
	id, content := fmt.Sprint("t", p.n), fmt.Sprint("v", p.n)
	name := rapid.SampledFrom([]string{"a", "b", "d/c", "e", "new/f"}).Draw(p.T, "path")
	_, exists := p.present()[name]
	switch what := rapid.IntRange(0, 5).Draw(p.T, "what"); {
	case what <= 1:
		p.c.writes("p1", id, name, content)
		p.byCommand[name] = false
		if p.held = append(p.held, p.present()); rapid.IntRange(0, 5).Draw(p.T, "formatter") == 0 {
			p.c.write(name, content+"-formatted")
		}
		return
	case what == 2 && exists:
		input := map[string]any{"command": "*** Begin Patch\n*** Delete File: " + name + "\n*** End Patch"}
		p.c.begins("p1", id, "apply_patch", input)
		p.c.remove(name)
		p.c.ends("p1", id, "apply_patch", input)
		p.byCommand[name] = false
	case what == 3 && exists && !p.byCommand[name]:
		p.c.runs("p1", id, "rm "+name, func() { p.c.remove(name) })
	case what == 4:
		p.c.reads("p1", id, name)
	default:
		p.c.runs("p1", id, "make", func() { p.c.write(name, content) })
		p.byCommand[name] = true
	}
	p.held = append(p.held, p.present())
}
