package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/testing/executable"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// killedWorld is a kind of world for the tests that kill generations.
type killedWorld struct {
	name       string
	experiment string
	realtime   bool // its runs are not reproducible

	once sync.Once
	want map[string]string // the outcome of a run without kills
}

// killedWorlds returns the kinds of worlds. Worlds that apply actions immediately are reproducible only if the order of
// turns is fixed.
func killedWorlds() []*killedWorld {
	in := func(world, more string) string {
		return strings.Replace(villageTOML, `world = "company"`, fmt.Sprintf("world = %q\n%s", world, more), 1)
	}
	return []*killedWorld{
		{name: "company", experiment: villageTOML},
		{name: "grid", experiment: in("grid", `order = "fixed"`)},
		{name: "pond", experiment: in("pond", `order = "fixed"`)},
		{name: "realtime", experiment: strings.Replace(in("pond", ""), "ticks = 8", "duration = \"2s\"\nidle = \"0.1s\"", 1), realtime: true},
	}
}

// start makes an installation with the experiment.
func (w *killedWorld) start(t *testing.T, every string) *experiment {
	t.Helper()
	x := newExperiment(t, w.experiment, every)
	pond := filepath.Join(x.dir, "pond")
	if err := os.CopyFS(pond, os.DirFS(filepath.Join(experimentsDir, "pond"))); err != nil {
		t.Fatal(err)
	}
	executable.NameInterpreter(t, filepath.Join(pond, "world.toml"))
	if w.realtime {
		x.consistency = archive.Barrier
		file := filepath.Join(pond, "world.toml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.NewReplacer(`mode = "stepped"`, `mode = "realtime"`, "tick = 60.0", "").Replace(string(text))
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// TestGenerationsSurviveKills kills the runner, the world and agents at random moments, in a kind of world that the
// seed decides. The experiment must end like one that was not interrupted. Without /proc, only the runner is killed.
func TestGenerationsSurviveKills(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes many seconds
	}
	t.Parallel()
	seeds, worlds := 1, killedWorlds()
	whole := 200 * len(worlds)
	if !soak.IsWhole() {
		worlds = worlds[:2] // worlds in separate processes start slowly
	}
	for _, seed := range soak.Seeds(t, seeds, whole) {
		w := worlds[seed%uint64(len(worlds))]
		t.Run(fmt.Sprint(seed, " ", w.name), func(t *testing.T) {
			if !w.realtime {
				w.once.Do(func() {
					straight := w.start(t, "0.1")
					began := time.Now()
					straight.mustRun()
					straight.checkRows(began, time.Now())
					w.want = straight.outcome()
				})
			}
			x := w.start(t, []string{"0.05", "0.2"}[seed/uint64(len(worlds))%2])
			began := time.Now()
			x.runKilled(rand.New(rand.NewPCG(seed, 0)))
			x.checkRows(began, time.Now())
			if !w.realtime {
				if diff := gocmp.Diff(w.want, x.outcome()); diff != "" {
					t.Error(diff)
				}
			}
			x.checkFailedRuns()
		})
	}
}
