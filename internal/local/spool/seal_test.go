package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

func newSealer(t testing.TB, first byte) Sealer {
	t.Helper()
	z, _, err := record.Unlock("store", append([]byte{first}, make([]byte, 31)...), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestSealedTurns writes two turns with the same content, which cannot be read from the files. Lines that are torn,
// plain, of another key or of another turn count as damaged. The other lines are read.
func TestSealedTurns(t *testing.T) {
	dir, z := t.TempDir(), newSealer(t, 1)
	d := NewSealed(dir, vfs.OS, func() (Sealer, error) { return z, nil })
	for _, key := range []segno.TurnKey{"one", "two"} {
		if err := d.SaveTurn(t.Context(), timeline.OpenTurn{Key: key, Prompt: "a secret"}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b"} {
			if err := d.AppendEntry(t.Context(), key, segno.Entry{Kind: segno.EntryNote, ID: id, Body: []byte(`"a secret"`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := os.ReadFile(d.turnFile("one"))
	if err != nil || bytes.Contains(data, []byte("secret")) {
		t.Fatalf("%s, %v", data, err)
	}
	other, err := os.ReadFile(d.turnFile("two"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"open":"`) || !strings.HasPrefix(lines[2], `{"entry":"`) {
		t.Fatalf("the lines are %q", lines)
	}
	foreign := encodeLine(newSealer(t, 2), d.turnFile("one"), partEntry, []byte(`{"id":"foreign"}`))
	for what, line := range map[string]string{
		"a torn line":           lines[2][:len(lines[2])/2],
		"a plain line":          `{"entry":{"id":"plain"}}`,
		"a line of another key": string(foreign),
		"another turn's line":   strings.Split(strings.TrimSpace(string(other)), "\n\n")[1],
		"an entry as a turn":    `{"open"` + strings.TrimPrefix(lines[1], `{"entry"`),
		"no base64":             `{"entry":"?"}`,
		"nothing":               `{"entry":""}`,
	} {
		if err := os.WriteFile(d.turnFile("one"), append(bytes.Clone(data), "\n"+line+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		entries, bad, err := d.Entries(t.Context(), "one")
		if err != nil || bad != 1 || len(entries) != 2 {
			t.Errorf("%s: %d entries, %d bad, %v", what, len(entries), bad, err)
		}
		turns, err := d.Turns(t.Context())
		if err != nil || len(turns) != 2 || turns[0].Prompt != "a secret" || turns[1].Prompt != "a secret" {
			t.Errorf("%s: turns %+v, %v", what, turns, err)
		}
	}
}

// TestSealedFilesOpenOnlyInTheirPlace swaps files of a sealed spool, and replaces them by plain files.
func TestSealedFilesOpenOnlyInTheirPlace(t *testing.T) {
	dir, z := t.TempDir(), newSealer(t, 1)
	d := NewSealed(dir, vfs.OS, func() (Sealer, error) { return z, nil })
	for _, id := range []segno.WorkspaceID{"one", "two"} {
		if err := d.WritePlan(t.Context(), id, []byte(`"plan of `+string(id)+`"`)); err != nil {
			t.Fatal(err)
		}
	}
	if plan, err := d.ReadPlan(t.Context(), "one"); err != nil || string(plan) != `"plan of one"` {
		t.Fatalf("%s, %v", plan, err)
	}
	if err := os.Rename(d.planFile("two"), d.planFile("one")); err != nil {
		t.Fatal(err)
	}
	if plan, err := d.ReadPlan(t.Context(), "one"); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("another's plan: %s, %v", plan, err)
	}
	if err := New(dir, vfs.OS).WritePlan(t.Context(), "one", []byte(`"plain"`)); err != nil {
		t.Fatal(err)
	}
	if plan, err := d.ReadPlan(t.Context(), "one"); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("a plain plan: %s, %v", plan, err)
	}
	if err := New(dir, vfs.OS).Defer(t.Context(), []segno.Commit{{ID: "plain"}}); err != nil {
		t.Fatal(err)
	}
	err := d.ReplayDeferred(t.Context(), func(segno.Commit) error { t.Error("a plain commit was applied"); return nil })
	if segno.KindOf(err) != segno.KindCorrupt {
		t.Error(err)
	}
	if failed, err := d.Failed(); err != nil || len(failed) != 1 {
		t.Errorf("set aside: %q, %v", failed, err)
	}
}

// TestSpoolThatIsSealedMeanwhile seals the store after a hook found it plain and before the hook writes. The file does
// not keep the plain line, but keeps its earlier lines.
func TestSpoolThatIsSealedMeanwhile(t *testing.T) {
	z := newSealer(t, 1)
	for _, unlocks := range []bool{true, false} {
		dir, calls := t.TempDir(), 0
		sealed := NewSealed(dir, vfs.OS, func() (Sealer, error) { return z, nil })
		if err := sealed.SaveTurn(t.Context(), timeline.OpenTurn{Key: "open"}); err != nil {
			t.Fatal(err)
		}
		d := NewSealed(dir, vfs.OS, func() (Sealer, error) {
			switch calls++; {
			case calls == 1:
				return nil, nil
			case unlocks:
				return z, nil
			}
			return nil, errors.New("sealed")
		})
		e := segno.Entry{Kind: segno.EntryNote, Body: []byte(`"a secret"`)}
		if err := d.AppendEntry(t.Context(), "unknown", e); err != nil || sealed.Has("unknown") {
			t.Errorf("a turn that is not open: %v", err)
		}
		if calls = 0; d.AppendEntry(t.Context(), "open", e) != nil {
			t.Error("a turn that is open")
		}
		if turns, err := sealed.Turns(t.Context()); err != nil || len(turns) != 1 {
			t.Errorf("the open turn: %+v, %v", turns, err)
		}
		calls = 0
		if first, err := d.KeepUnrecorded(Unrecorded{Session: "s", Dir: "a secret"}); err != nil || !first && unlocks {
			t.Errorf("%v, %v", first, err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("secret")) {
				t.Errorf("%s contains %s", name, data)
			}
		}
	}
}
