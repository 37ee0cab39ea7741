package einofiles_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// replacement makes a test of Eino use segno.
type replacement struct{ file, old, new string }

// replacements replace the stores and the backend in the tests of Eino. A test inside a package cannot import a
// package that imports it, so a second test outside of the package sets NewOfSegno.
var replacements = []replacement{
	{"compose/checkpoint_test.go", "type inMemoryStore struct {", "var NewOfSegno func() CheckPointStore\n\ntype inMemoryStore struct {\n\ts CheckPointStore"},
	{"compose/checkpoint_test.go", "\tv, ok := i.m[checkPointID]\n\treturn v, ok, nil", "\tif i.s == nil {\n\t\ti.s = NewOfSegno()\n\t}\n\treturn i.s.Get(context.Background(), checkPointID)"},
	{"compose/checkpoint_test.go", "\ti.m[checkPointID] = checkPoint\n\treturn nil", "\tif i.s == nil {\n\t\ti.s = NewOfSegno()\n\t}\n\treturn i.s.Set(context.Background(), checkPointID, checkPoint)"},
	{"adk/interrupt_test.go", "type myStore struct {", "var NewOfSegno func() CheckPointStore\n\ntype myStore struct {\n\ts CheckPointStore"},
	{"adk/interrupt_test.go", "\tm.m[key] = value\n\treturn nil", "\treturn m.s.Set(context.Background(), key, value)"},
	{"adk/interrupt_test.go", "\tv, ok := m.m[key]\n\treturn v, ok, nil", "\treturn m.s.Get(context.Background(), key)"},
	{"adk/interrupt_test.go", "return &myStore{\n", "return &myStore{\n\t\ts: NewOfSegno(),\n"},
	{"adk/filesystem/backend_inmemory_test.go", "NewInMemoryBackend()", "NewOfSegno(t)"},
	{"adk/filesystem/backend_inmemory_test.go", "func BenchmarkInMemoryBackend_GrepRaw(b *testing.B) {", "func BenchmarkInMemoryBackend_GrepRaw(b *testing.B) {\n\tt := b"},
	{"adk/filesystem/backend_inmemory_test.go", "func TestInMemoryBackend_WriteAndRead", "var NewOfSegno func(t testing.TB) Backend\n\nfunc TestInMemoryBackend_WriteAndRead"},
}

// outside are the tests outside of the packages.
var outside = map[string]string{
	"compose/segno_test.go": `package compose_test

import (
	"github.com/cloudwego/eino/compose"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/store/memory"
)

func init() { compose.NewOfSegno = func() compose.CheckPointStore { return segnoeino.New(memory.New(nil)) } }
`,
	"adk/segno_test.go": `package adk_test

import (
	"github.com/cloudwego/eino/adk"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/store/memory"
)

func init() { adk.NewOfSegno = func() adk.CheckPointStore { return segnoeino.New(memory.New(nil)) } }
`,
	"adk/filesystem/segno_test.go": `package filesystem_test

import (
	"testing"

	"github.com/cloudwego/eino/adk/filesystem"
	einofiles "github.com/dalsegno/segno/adapters/eino/files"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/file"
)

func init() {
	filesystem.NewOfSegno = func(t testing.TB) filesystem.Backend {
		state := t.TempDir()
		store, err := file.Open(t.Context(), state+"/store", file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tl, err := agent.OpenTimeline(t.Context(), store, t.TempDir(), state)
		if err != nil {
			t.Fatal(err)
		}
		files, err := einofiles.Open(tl)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
}
`,
}

// The tests that Eino has for its own stores and its own backend pass with those of segno.
func TestTheTestsOfEino(t *testing.T) {
	if !soak.IsWhole() {
		return // it compiles Eino and segno again
	}
	run := func(t *testing.T, dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	eino := filepath.Join(dir, "eino")
	if err := os.CopyFS(eino, os.DirFS(strings.TrimSpace(run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cloudwego/eino")))); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "chmod", "-R", "u+w", eino)
	for _, r := range replacements {
		name := filepath.Join(eino, r.file)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), r.old) {
			t.Fatalf("%s does not contain %q", r.file, r.old)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(data), r.old, r.new)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range outside {
		if err := os.WriteFile(filepath.Join(eino, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := "go 1.26.0\n\nuse (\n\t" + strings.Join([]string{eino, root, root + "/adapters/eino", root + "/adapters/eino/files"}, "\n\t") + "\n)\n"
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"compose", "adk", "adk/filesystem"} {
		t.Run(path.Base(pkg), func(t *testing.T) {
			// The clock of a file system is some milliseconds behind the clock that the skipped test compares with.
			t.Log(run(t, eino, "go", "test", "-vet=off", "-count=1", "-skip", "ModifiedAt/WriteUpdatesModifiedAt", "./"+pkg))
		})
	}
}
