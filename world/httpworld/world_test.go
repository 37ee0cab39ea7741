package httpworld_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/httpworld"
	"github.com/dalsegno/segno/world/worldcheck"
)

const pond = "../../experiments/pond"

// TestWorldInPython checks the example for worlds in other languages.
func TestWorldInPython(t *testing.T) {
	passed := 0
	err := httpworld.Check(t.Context(), pond, 1, func(check string, defect error) {
		passed++
		if defect != nil {
			t.Errorf("%s: %v", check, defect)
		}
	})
	if err != nil || passed < 10 {
		t.Errorf("%d checks ran: %v", passed, err)
	}
}

// TestCheckFindsDefects gives the world defects that are easy to make.
func TestCheckFindsDefects(t *testing.T) {
	server, err := os.ReadFile(filepath.Join(pond, "server.py"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(pond, httpworld.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ check, from, to, text string }{
		"the random source is not saved": {"Restore", "world.random.setstate((version, tuple(state), gauss))", "pass", "did not begin with the document"},
		"payloads have the host's time":  {"Clock", `"time": self.time,\n            "you"`, `"time": __import__("time").time(),\n            "you"`, "time of the host"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			defective := strings.Replace(string(server), strings.ReplaceAll(c.from, `\n`, "\n"), strings.ReplaceAll(c.to, `\n`, "\n"), 1)
			if defective == string(server) {
				t.Fatal("the defect is not in the world")
			}
			for name, data := range map[string]string{"server.py": defective, httpworld.ConfigFile: string(config)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			checks := worldcheck.All()
			check := checks[slices.IndexFunc(checks, func(k worldcheck.Check) bool { return k.Name == c.check })]
			script := worldcheck.Random(rand.New(rand.NewPCG(1, 0)), func(*rand.Rand) json.RawMessage { return json.RawMessage(`{"do":"fish","amount":3}`) })
			err := check.Run(t.Context(), worldcheck.Config{External: true,
				New: func(ctx context.Context) (segno.World, error) { return httpworld.Start(ctx, dir, httpworld.Options{}) }}, script)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("check %s finds %v", c.check, err)
			}
		})
	}
}

func TestCheckNeedsActions(t *testing.T) {
	dir := testWorld(t, "grid")
	err := httpworld.Check(t.Context(), dir, 1, func(check string, _ error) { t.Errorf("%s runs", check) })
	if !errors.Is(err, segno.KindInvalid) || !strings.Contains(err.Error(), "check.actions") {
		t.Errorf("the error is %v", err)
	}
}
