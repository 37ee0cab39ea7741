package secret

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// A precisionCase is a tree of published files. Its authors have published every value in it, so a
// finding is a false alarm, or a test key that looks like a true one.
type precisionCase struct {
	name  string
	dirs  []string
	skip  string // a part of paths that are not read
	limit int    // the number of findings before a change of a rule
}

func goSources(dirs ...string) (paths []string) {
	root := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the tree is what the test needs
	for _, d := range dirs {
		paths = append(paths, filepath.Join(root, d))
	}
	return paths
}

// TestPublishedFilesHaveFewFindings limits the number of the scanner's findings in published files.
// Under SEGNO_SOAK it reads all of Go's sources and the packages of two agents.
func TestPublishedFilesHaveFewFindings(t *testing.T) {
	cases := []precisionCase{
		{name: "a sample of Go's sources", dirs: goSources("net/http", "encoding", "go", "os", "strings", "cmd/go/internal"), skip: "testdata", limit: 3},
	}
	if soak.IsWhole() {
		cases = append(cases, precisionCase{name: "Go", dirs: []string{runtime.GOROOT()}, limit: 34}, agents(t)) //nolint:staticcheck // as above
	}
	s := scanner(t, Options{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, s) })
	}
}

// agents returns the packages of Claude Code and Gemini CLI.
func agents(t *testing.T) precisionCase {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claude, err := agentrig.Install(ctx, agentrig.ClaudeNewest)
	if err != nil {
		t.Fatal(err)
	}
	gemini, err := agentrig.NewGemini(ctx, agentrig.TempDir(t), "http://127.0.0.1:1", agentrig.GeminiNewest)
	if err != nil {
		t.Fatal(err)
	}
	return precisionCase{name: "agents", dirs: []string{filepath.Dir(claude), filepath.Dir(gemini.Flags[0])}, limit: 9}
}

func (c precisionCase) check(t *testing.T, s *Scanner) {
	var size int64
	byRule, total := map[string]int{}, 0
	for _, dir := range c.dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || c.skip != "" && strings.Contains(path, c.skip) {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			size += info.Size()
			found, err := s.Scan(path, f)
			for _, f := range found {
				byRule[f.Rule]++
				total++
				t.Logf("%s:%d: %s %s", path, f.Record, f.Rule, f.Sample)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d findings in %d MB: %v", total, size>>20, byRule)
	if total > c.limit {
		t.Errorf("%d findings, and there were %d", total, c.limit)
	}
}
