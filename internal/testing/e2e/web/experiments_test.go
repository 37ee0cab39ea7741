package web_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// lab is a directory with the experiments of the repository and their runs, beside the store of a demo.
type lab struct {
	*demo
	dir string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{newDemo(t), t.TempDir()}
	if err := os.CopyFS(filepath.Join(l.dir, "experiments"), os.DirFS("../../../../experiments")); err != nil {
		t.Fatal(err)
	}
	return l
}

// command returns the segno command, prepared to run in the directory of the experiments.
func (l *lab) command(args ...string) *exec.Cmd {
	cmd := l.demo.command(args...)
	cmd.Dir = l.dir
	return cmd
}

// run runs an experiment with a few ticks.
func (l *lab) run(name string, ticks int, args ...string) {
	l.Helper()
	file := filepath.Join(l.dir, "experiments", name+".toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, regexp.MustCompile(`(?m)^ticks = [0-9]+`).ReplaceAll(text, fmt.Appendf(nil, "ticks = %d", ticks)), 0o600)
	}
	if err != nil {
		l.Fatal(err)
	}
	if out, err := l.command(append([]string{"generations", "run", file}, args...)...).CombinedOutput(); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
}

// TestGenerationsOfAnExperiment shows an experiment with a repeated generation. Each attempt has a row, the page draws
// the outcomes, and the links lead to the timeline of an agent and to an archive. An experiment that begins later
// appears without a reload.
func TestGenerationsOfAnExperiment(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	l := newLab(t)
	l.run("commons", 2)
	l.run("commons", 2, "--resume-from", "runs/commons-g003/checkpoints/gen003-t000002.ckpt")
	s := serve(t, l.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#turn h2", "commons-g004 tick 2") // the page first shows the timeline of a thread, in which undo works
	p.click(".experiment", "commons")
	p.waitText("#chain h2", "commons done")
	p.waitText("#chain .pane-head", "generation 4 of 4")
	p.wait("document.querySelector('#chain img').naturalWidth > 0")
	p.waitText("#chain caption", "6 attempts")
	p.wait("document.querySelectorAll('#chain .attempt.superseded').length === 2")
	p.waitText("#chain thead", "caught")
	first := "document.querySelector('#chain .attempt:last-of-type')"
	p.wait(first + ".innerText.includes('commons-g001-a1') && " + first + ".innerText.includes('began with empty workspaces')")
	p.waitText("#chain .details", "began with what commons-g001-a1 left")
	p.waitText("#chain .details", "began with checkpoint gen003-t000002.ckpt")
	for _, theme := range []string{"light", "dark"} {
		p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
		p.checkContrast(theme)
		p.shoot(theme)
	}
	p.click("#theme", "")
	p.click("#theme", "") // a light page on a system with dark colours
	p.shoot("light-in-dark")
	for _, width := range []int64{1024, 390} {
		p.run(emulation.SetDeviceMetricsOverride(width, 844, 1, false))
		p.checkLayout(fmt.Sprint(width))
		p.shoot(fmt.Sprint(width))
	}
	p.run(emulation.SetDeviceMetricsOverride(1440, 900, 1, false))

	// The timeline is not in view, so its keys do nothing.
	p.keys("u", "j")
	p.wait("!document.querySelector('dialog') && location.hash === '#//experiments/commons'")

	// The download of an archive is complete. The page may draw the experiment again at the same moment.
	var size float64
	p.eval(`(async () => { const create = URL.createObjectURL; let blob; URL.createObjectURL = (b) => (b.type.startsWith("image/") || (blob = b), create(b));
		document.querySelector('#chain .attempt .archive').click();
		await new Promise((done) => { const look = () => blob ? done() : setTimeout(look, 10); look() }); URL.createObjectURL = create; return blob.size })()`, &size)
	info, err := os.Stat(filepath.Join(l.dir, "runs/commons-g004/checkpoints/gen004-t000002.ckpt"))
	if err != nil || float64(info.Size()) != size {
		t.Errorf("the archive has %v bytes, and %v were downloaded: %v", info.Size(), size, err)
	}

	// The agent's link leads to its timeline, and the back button returns to the experiment.
	p.click("#chain .attempt .agent", "Bo")
	p.waitText("#timeline .row.selected", "tick 2")
	p.waitNo("#chain", "attempts")
	p.eval("history.back()", nil)
	p.waitText("#chain h2", "commons")
	p.keys("Escape")
	p.waitText("#timeline .row.selected", "tick 2")
	p.eval("history.back()", nil)
	p.waitText("#chain h2", "commons")
	p.run(chromedp.Reload())
	p.waitText("#chain h2", "commons done")
	p.click(".thread", "write a small greeting program")
	p.waitText("#turn h2", "t2 add a test")

	l.run("rush", 1)
	p.waitText(".experiment", "rush")
	p.waitText(".experiment .meta", "generation 2 of 2")
}

// TestExperimentThatRuns checks that the page follows a running experiment, row by row.
func TestExperimentThatRuns(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	l := newLab(t)
	s := serve(t, l.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText("#timeline", "add a test and a note about it")
	p.wait("document.querySelector('.experiments').hidden")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "segno", "--store", filepath.Join(l.demo.dir, "store"), "generations", "run", "experiments/village.toml")
	cmd.Dir, cmd.Env = l.dir, append(l.env, "CHECKPOINT_EVERY=0.1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.waitText(".experiment .state", "running")
	p.click(".experiment", "village")
	p.waitText("#chain h2", "running")
	p.waitText("#chain tbody", "village-g001-a1")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	p.waitText("#chain h2", "done")
	p.waitText("#chain tbody", "village-g003-a1")
}

// TestHostileExperiments shows a directory of runs in which every text is hostile. The page shows the texts as plain
// text, reports an unreadable chain, and shows no archive for an attempt whose path leaves the directory.
func TestHostileExperiments(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	l := newLab(t)
	const evil = "<img src=x onerror='window.pwned=1'><script>window.pwned=2</script>\x1b[31m\u202e"
	csv := func(fields ...string) string {
		for i, f := range fields {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
		return strings.Join(fields, ",") + "\n"
	}
	header := func(outcome string) string {
		return csv("generation", "agent_index", "agent_name", "run_id", "status", "template_in", "workspace_out", "start_utc", "end_utc", "duration_seconds", "ticks",
			"sim_seconds", "checkpoints", "tokens_in", "tokens_out", "reproducible", "why_not_reproducible", outcome)
	}
	row := func(run, status string) string {
		return csv("1", "0", evil, run, status, evil, "javascript:window.pwned=3", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z", "1.000", "3", "4.5", "1",
			"7", "", "no", evil, "1e300")
	}
	for name, content := range map[string]string{
		"good/lock": "", "bad/lock": "", "<b onclick=alert(1)>x/lock": "", "broken/lock": "", "broken/status.json": `{"state":`,
		"good/status.json":                             `{"experiment":"` + "<b>good" + `","state":"<i>running","error":"<script>window.pwned=4</script>","agents":["<u>a</u>"],"files_omitted":["<s>f"],"generation":1,"generations":2}`,
		"good/generation_chain.csv":                    header("fish") + row(evil, evil) + row("../../../etc", "failed") + row("out", "completed"),
		"bad/generation_chain.csv":                     header("<script>") + row(evil, evil),
		"../elsewhere/checkpoints/gen001-t000001.ckpt": "private",
	} {
		path := filepath.Join(l.dir, "other", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(l.dir, "other/good/attempts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../elsewhere", filepath.Join(l.dir, "other/good/attempts/out")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, l.command("web", "--no-open", "--out", "other"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.expected = []string{"500 (Internal Server Error)"} // for the unreadable chains
	p.waitText(".experiment", "<b onclick=alert(1)>x")
	p.waitText(".experiment .tag", "damaged")
	p.click(".experiment", "good")
	p.waitText("#chain tbody th", "<img src=x")
	p.waitText("#chain .details", "window.pwned=2")
	p.waitText("#chain .notice", "window.pwned=4")
	p.waitText("#chain .notice", "<s>f")
	p.wait("document.querySelector('#chain img').naturalWidth > 0")
	p.wait("document.querySelectorAll('#chain .archive').length === 0")
	p.shoot("hostile")
	p.click(".experiment", "bad")
	p.waitText("#chain .notice", "generation_chain.csv")
	p.click(".experiment", "broken")
	p.waitText("#chain .notice", "status.json")
	var found struct {
		Pwned any
		Bad   []string
	}
	p.eval(`({ Pwned: window.pwned ?? null, Bad: [...document.querySelectorAll("script:not([src='main.js']), iframe, b, i, u, s, img:not([src^='blob:']), a[href^='javascript']")].map((e) => e.outerHTML.slice(0, 100)) })`, &found)
	if found.Pwned != nil || len(found.Bad) > 0 {
		t.Errorf("a script ran (%v), or an element could run one: %q", found.Pwned, found.Bad)
	}
}
