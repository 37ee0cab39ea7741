package segno_test

import (
	"bufio"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dalsegno/segno"

// allowed lists the packages of this module that each package may import. The dependencies
// form a star around the root package; only the drivers and the command import more than it.
var allowed = map[string][]string{
	".":                               {},
	"timeline":                        {".", "transcript", "internal/vfs", "internal/store/ledger", "timeline/internal/ownership", "internal/store/phase", "agents", "internal/history/turns"},
	"timeline/internal/ownership":     {".", "internal/history/turns", "agents", "agents/profile"},
	"saver":                           {".", "timeline"},
	"internal/vfs":                    {},
	"internal/local/spool":            {".", "internal/vfs", "internal/proc", "timeline"},
	"internal/testing/faultfs":        {"internal/vfs", "internal/testing/soak"},
	"secret":                          {"internal/vfs"},
	"archive":                         {".", "internal/jsonscan", "internal/vfs", "internal/local/agekey", "secret", "agents"},
	"internal/local/agekey":           {},
	"internal/local/sealing":          {".", "internal/local/agekey", "internal/store/record", "internal/local/spool", "internal/vfs"},
	"internal/database":               {".", "internal/vfs"},
	"internal/worlds/credential":      {".", "agents", "agents/profile", "internal/jsonscan", "internal/vfs"},
	"internal/pack":                   {"agents", ".", "archive", "internal/database", "internal/history/reachable", "internal/vfs", "timeline", "transcript/claude", "transcript/filelog", "workspace", "agents/profile", "transcript/readers"},
	"workspace/internal/gitignore":    {},
	"workspace/internal/watch":        {"internal/vfs"},
	"workspace":                       {".", "internal/vfs", "workspace/internal/gitignore", "workspace/internal/watch"},
	"internal/history/reachable":      {".", "internal/database", "timeline", "transcript/claude", "transcript/filelog", "transcript/readers", "workspace"},
	"transfer/transfercmd":            {".", "archive", "client", "internal/chat", "internal/cli", "internal/history/idprefix", "internal/history/moves", "internal/local", "internal/vfs", "timeline", "transfer", "transfer/arrivals", "workspace"},
	"transfer/arrivals":               {".", "internal/database", "internal/local", "internal/pack", "timeline", "transcript/claude", "workspace"},
	"transfer":                        {".", "internal/history/reachable"},
	"store/memory":                    {".", "internal/store/notify", "store/internal/threadlog"},
	"transcript/internal/sessionfile": {".", "transcript", "internal/jsonscan", "internal/vfs"},
	"transcript":                      {"."},
	"transcript/claude":               {".", "transcript", "internal/jsonscan", "internal/vfs", "internal/proc", "transcript/internal/sessionfile"},
	"transcript/codex":                {".", "transcript", "internal/jsonscan", "internal/vfs", "transcript/internal/sessionfile", "agents/profile"},
	"transcript/gemini":               {".", "transcript", "internal/jsonscan", "internal/vfs", "transcript/internal/sessionfile"},
	"transcript/filelog":              {".", "transcript", "transcript/internal/sessionfile", "internal/vfs"},
	"transcript/opencode":             {".", "transcript", "transcript/internal/sessionfile"},
	"internal/jsonscan":               {},
	"internal/store/record":           {"."},
	"internal/store/notify":           {"."},
	"internal/store/ledger":           {".", "internal/jsonscan"},
	"store/internal/reach":            {"."},
	"store/internal/threadlog":        {".", "internal/store/ledger", "internal/store/notify", "store/internal/reach", "internal/store/phase"},
	"internal/store/phase":            {"."},
	"internal/history/idprefix":       {".", "internal/history/printable"},
	"client":                          {".", "internal/store/sqlstore", "internal/web/wire"},
	"internal/web/wire":               {".", "internal/store/record"},
	"internal/history/printable":      {"."},
	"internal/history/patch":          {".", "internal/history"},
	"internal/history/turns":          {".", "transcript", "internal/jsonscan", "internal/vfs", "agents", "agents/profile"},
	"internal/history/moves":          {".", "internal/proc", "internal/history", "internal/history/patch", "internal/history/printable", "timeline", "internal/local", "internal/history/turns", "internal/history/demo"},
	"internal/history/demo":           {".", "internal/local", "timeline", "transcript/claude"},
	"store/file":                      {".", "internal/vfs", "internal/store/notify", "store/internal/threadlog"},
	"store/kv":                        {".", "internal/store/ledger", "internal/store/record", "internal/store/notify", "store/internal/reach", "internal/store/phase"},
	"store/kv/kvtest":                 {"store/kv", "."},
	"store/kv/redis":                  {".", "store/kv"},
	"store/sqlite":                    {".", "internal/store/ledger", "internal/vfs", "internal/store/record", "internal/store/sqlstore", "internal/store/phase", "store/sqlite/internal/checksumvfs"},
	"store/postgres/buckettest":       {"store/postgres"},
	"store/postgres":                  {".", "internal/vfs", "internal/store/ledger", "internal/store/record", "internal/store/sqlstore", "internal/store/phase"},
	"store/storetest":                 {".", "saver", "timeline", "internal/store/phase", "internal/testing/ledgertest", "internal/testing/soak"},
	"internal/testing/storerig":       {".", "internal/vfs", "internal/testing/faultfs"},
	"internal/store/sqlstore":         {".", "internal/store/ledger", "internal/store/record", "internal/store/notify", "internal/store/phase"},
	"store/postgres/gocloud":          {"store/postgres"},
	"internal/proc":                   {},
	"internal/local":                  {"agents", "agents/profile", ".", "internal/database", "internal/history/reachable", "transcript", "secret", "internal/local/agekey", "internal/proc", "internal/local/sealing", "internal/vfs", "internal/local/spool", "store/sqlite", "workspace", "timeline", "transcript/claude", "transcript/codex", "transcript/filelog", "transcript/readers"},
	"internal/proxy/acp":              {".", "internal/jsonscan"},
	"internal/proxy/failure":          {"internal/proxy/acp", "agents", "agents/profile"},
	"internal/testing/acptest":        {"internal/proxy/acp"},
	"internal/proxy":                  {".", "internal/proxy/acp", "internal/proxy/failure", "internal/proxy/preamble", "internal/local", "internal/proc", "internal/local/spool", "internal/vfs", "timeline", "internal/history/turns", "internal/history", "internal/history/printable", "internal/history/moves", "agents"},
	"internal/hook/event":             {".", "workspace", "internal/jsonscan", "internal/vfs", "internal/local/spool", "timeline", "internal/history/turns", "agents", "agents/profile", "internal/proc"},
	"internal/proxy/preamble":         {".", "timeline", "internal/history/turns", "agents", "agents/profile"},
	"internal/hook":                   {".", "internal/jsonscan", "internal/vfs", "internal/local", "internal/proc", "internal/hook/event", "internal/local/spool", "timeline", "internal/history/turns", "agents", "agents/claude", "agents/codex", "agents/profile"},
	"internal/web/export/markdown":    {"internal/history/printable"},
	"internal/web/export":             {".", "internal/history", "insight/blame", "internal/history/patch", "internal/web/export/markdown", "internal/history/printable", "secret", "timeline", "transcript", "workspace", "internal/history/turns"},
	"internal/cli":                    {".", "agents", "internal/database", "transcript", "internal/history/idprefix", "internal/local", "internal/proc", "timeline", "internal/history/moves", "internal/history/patch", "internal/history/printable", "internal/history", "workspace"},
	"internal/history":                {".", "transcript", "internal/history/printable", "internal/history/idprefix", "timeline", "internal/history/turns"},
	"internal/web":                    {".", "agent", "transcript", "internal/chat", "internal/history", "internal/local", "internal/local/spool", "internal/proc", "timeline", "workspace", "internal/history/moves", "internal/web/wire", "internal/history/patch", "generation", "internal/worlds/trend", "world", "internal/history/turns", "search", "internal/history/reachable", "internal/vfs"},
	"internal/chat/acpagent":          {".", "agent", "internal/proxy/acp", "internal/chat", "internal/proxy/preamble", "agents", "agents/profile"},
	"internal/chat/tui":               {".", "agent", "internal/chat", "internal/history/printable", "internal/jsonscan", "generation"},
	"agent/model/internal/endpoint":   {".", "agent"},
	"internal/chat":                   {".", "transcript", "internal/history/idprefix", "agent", "agent/tool", "timeline", "internal/history", "internal/history/printable", "agent/model/offline", "internal/history/moves"},
	"internal/testing/fakemodel":      {},
	"internal/testing/agentrig":       {"internal/testing/debian"},
	"internal/testing/serverrig":      {"internal/testing/debian"},
	"internal/testing/retryrig":       {".", "agent", "internal/testing/soak"},
	"internal/testing/modelrig":       {"agent"},
	"agent":                           {".", "store/memory", "workspace", "internal/proc", "internal/local/spool", "internal/vfs", "timeline", "saver"},
	"agent/tool":                      {".", "agent"},
	"agent/model/offline":             {".", "agent"},
	"agent/model/anthropic":           {".", "agent", "agent/model/internal/endpoint"},
	"agent/model/openai":              {".", "agent", "agent/model/internal/endpoint"},
	"internal/testing/e2erig":         {"internal/testing/acptest", "internal/testing/agentrig", "internal/testing/damage", "internal/testing/debian", "internal/testing/fakemodel", "internal/testing/memdir", "internal/testing/parallel", "internal/testing/signals", "internal/testing/soak"},
	"world":                           {"."},
	"world/grid":                      {".", "world"},
	"world/company":                   {".", "world"},
	"world/worldcheck":                {".", "world"},
	"world/worldtest":                 {"world/worldcheck"},
	"world/httpworld":                 {".", "internal/worlds/supervise", "internal/vfs", "world", "world/worldcheck"},
	"internal/worlds/supervise":       {},
	"generation":                      {".", "archive", "internal/worlds/credential", "internal/pack", "internal/worlds/supervise", "internal/vfs", "timeline", "transcript", "transcript/claude", "transcript/codex", "transcript/filelog", "workspace", "world", "internal/proc", "internal/history/printable"},
	"internal/worlds/trend":           {".", "generation"},
	"internal/worlds/worldagent":      {".", "agent", "agent/tool", "internal/proxy/acp", "internal/proxy/failure", "internal/proxy/preamble", "store/file"},
	"internal/worlds":                 {".", "world", "world/company", "world/grid"},
	"cmd/segno":                       {".", "internal/cli", "agent", "agent/model/anthropic", "agent/model/openai", "fleet/fleetcmd", "store/kv/redis", "internal/database", "internal/chat/chatcmd", "internal/history/historycmd", "internal/hook/hookcmd", "internal/pack/packcmd", "internal/proxy/proxycmd", "internal/sessions", "internal/web/webcmd", "internal/worlds/worldscmd", "internal/chat", "search/searchcmd", "insight/insightcmd", "transfer/transfercmd"},
	"fleet/s3":                        {"."},
	"cmd/segno-hook":                  {"internal/hook/event"},
	"internal/testing/debian":         {},
	"internal/testing/chromiumrig":    {"internal/testing/debian"},

	"internal/testing/ledgertest":   {"."},
	"internal/testing/recording":    {"internal/testing/fakemodel"},
	"internal/testing/notifytest":   {".", "internal/store/notify"},
	"internal/testing/containerrig": {"internal/proc"},
	"internal/testing/damage":       {},
	"internal/testing/executable":   {},
	"internal/testing/memdir":       {"internal/testing/soak"},
	"internal/testing/parallel":     {},
	"internal/testing/readonly":     {},
	"internal/testing/screencast":   {},
	"internal/testing/signals":      {},
	"internal/testing/soak":         {},

	"store/sqlite/internal/checksumvfs": {},
	"adapters/genkit":                   {".", "agent", "adapters/internal/encodable", "adapters/internal/threadlease", "saver"},
	"adapters/eino/files":               {".", "adapters/eino", "timeline"},
	"adapters/eino":                     {".", "agent", "adapters/internal/encodable", "internal/proc", "adapters/internal/threadlease", "saver", "timeline"},
	"adapters/internal/encodable":       {},
	"adapters/internal/threadlease":     {".", "internal/proc"},
	"internal/testing/programrig":       {".", "internal/testing/soak", "store/sqlite"},
	"agents":                            {"agents/claude", "agents/codex", "agents/gemini", "agents/opencode", "agents/profile", "agents/segno"},
	"agents/claude":                     {"agents/profile"},
	"agents/codex":                      {"agents/profile"},
	"agents/gemini":                     {"agents/profile"},
	"agents/opencode":                   {"agents/profile"},
	"agents/profile":                    {},
	"agents/segno":                      {"agents/profile"},
	"fleet/fleetcmd":                    {".", "agent", "agent/tool", "client", "fleet", "fleet/runner", "fleet/s3", "fleet/workspaces", "internal/chat", "internal/cli", "internal/history/idprefix", "internal/vfs", "internal/web", "internal/web/wire", "secret", "store/postgres"},
	"fleet":                             {".", "agent", "fleet/internal/schedule", "internal/store/record", "store/postgres", "timeline"},
	"fleet/internal/schedule":           {"."},
	"fleet/runner":                      {".", "agent", "agents", "agents/gemini", "agents/opencode", "fleet", "fleet/workspaces", "internal/history/turns", "internal/local", "internal/local/spool", "internal/proc", "internal/proxy", "internal/proxy/acp", "internal/vfs", "timeline"},
	"fleet/workspaces":                  {".", "internal/local/spool", "internal/proc", "internal/vfs", "timeline", "workspace"},
	"experiments/well":                  {".", "world", "world/httpworld"},
	"internal/chat/chatcmd":             {".", "agent", "agent/model/offline", "agent/tool", "internal/chat", "internal/chat/acpagent", "internal/chat/tui", "internal/cli", "internal/local", "timeline", "internal/local/spool", "internal/proc"},
	"internal/history/historycmd":       {".", "internal/history/demo", "agent", "agents", "internal/chat", "internal/cli", "internal/history", "internal/history/idprefix", "internal/history/moves", "internal/history/patch", "internal/history/turns", "internal/hook", "internal/hook/event", "internal/local", "internal/local/spool", "timeline", "transcript/claude", "internal/history/printable", "internal/vfs", "workspace", "transcript"},
	"internal/hook/hookcmd":             {".", "agents", "internal/cli", "internal/hook", "internal/hook/event", "internal/local", "transcript/codex", "workspace"},
	"internal/pack/archivefile":         {".", "archive", "internal/cli", "internal/local", "internal/pack", "secret", "internal/cli/secretscan"},
	"internal/pack/packcmd":             {".", "archive", "internal/cli", "internal/history/patch", "internal/local", "internal/pack", "internal/pack/archivefile", "secret", "internal/cli/secretscan"},
	"internal/proxy/proxycmd":           {".", "agents/gemini", "agents/opencode", "internal/cli", "internal/proxy"},
	"internal/sessions":                 {".", "internal/cli", "internal/local", "timeline", "transcript", "transcript/claude", "transcript/codex"},
	"internal/testing/wings":            {"internal/chat/chatcmd", "internal/cli", "internal/history/historycmd", "internal/hook/hookcmd", "internal/pack/packcmd", "internal/proxy/proxycmd", "internal/sessions", "internal/web/webcmd", "internal/worlds/worldscmd", "internal/chat", "search/searchcmd", "insight/insightcmd", "transfer/transfercmd"},
	"internal/web/webcmd":               {".", "internal/cli", "internal/history", "internal/history/idprefix", "internal/local", "internal/vfs", "internal/web", "internal/web/export", "internal/cli/secretscan", "store/file", "store/sqlite", "internal/history/demo", "insight/gitai", "transfer/arrivals"},
	"internal/worlds/worldscmd":         {".", "agent", "archive", "generation", "internal/chat", "internal/chat/tui", "internal/cli", "internal/worlds/credential", "internal/database", "internal/history", "internal/history/moves", "internal/local", "internal/pack", "internal/pack/archivefile", "internal/proc", "internal/local/spool", "internal/vfs", "internal/worlds", "internal/worlds/trend", "internal/worlds/worldagent", "timeline", "world", "world/httpworld"},
	"internal/cli/secretscan":           {".", "internal/cli", "internal/local", "secret"},
	"transcript/readers":                {".", "internal/vfs", "transcript/claude", "transcript/codex", "transcript/gemini", "transcript/opencode"},
	"release":                           {},
	"search":                            {".", "internal/history", "internal/history/turns", "internal/local", "internal/vfs", "timeline", "workspace", "transcript"},
	"insight/insightcmd":                {".", "agents", "agents/profile", "insight/internal/mcp", "insight/internal/plugin", "internal/cli", "internal/vfs", "insight/internal/bisect", "internal/history", "internal/history/patch", "timeline", "workspace", "insight/blame", "insight/gitai", "internal/history/printable"},
	"insight/blame":                     {".", "internal/history/patch", "internal/local", "internal/vfs", "timeline", "workspace"},
	"insight/gitai":                     {".", "insight/blame", "internal/history/patch", "internal/local", "workspace"},
	"insight/internal/mcp":              {".", "internal/cli", "internal/history", "internal/history/idprefix", "internal/history/moves", "internal/history/printable", "internal/proc", "timeline"},
	"insight/internal/plugin":           {".", "agents/profile", "internal/vfs"},
	"search/searchcmd":                  {".", "transcript", "internal/cli", "internal/history", "internal/local", "search", "timeline"},
	"insight/internal/bisect":           {".", "internal/history", "internal/vfs", "internal/worlds/supervise", "workspace"},
}

// mayImport returns the packages of this module that a package may import. An agent needs no row: it may import the
// vocabulary of agents, and only their list may import it without a row.
func mayImport(dir string, p *build.Package) (may []string, known bool) {
	switch {
	case dir == "agents":
		for _, imp := range p.Imports {
			if rel, ours := strings.CutPrefix(imp, module+"/"); ours && path.Dir(rel) == "agents" {
				may = append(may, rel)
			}
		}
		return may, true
	case path.Dir(dir) == "agents" && dir != "agents/profile":
		return []string{"agents/profile"}, true
	}
	may, known = allowed[dir]
	return may, known
}

// isStandardOnly reports whether a package may import nothing from outside this module and the standard library. A hook
// at a tool call links the agents, so they stay small. A release is built without other tools.
func isStandardOnly(dir string) bool {
	return dir == "." || dir == "agents" || path.Dir(dir) == "agents" || dir == "release"
}

func packages(t *testing.T) map[string]*build.Package {
	t.Helper()
	pkgs := map[string]*build.Package{}
	err := filepath.WalkDir(".", func(path string, de fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !de.IsDir() {
			return nil
		}
		if name := de.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "docs") {
			return fs.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if _, none := err.(*build.NoGoError); none {
			return nil
		}
		if err != nil {
			return err
		}
		pkgs[filepath.ToSlash(path)] = p
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

func TestImportsPointAtTheRoot(t *testing.T) {
	for dir, p := range packages(t) {
		if p.Name == "main" && !strings.HasPrefix(dir, "cmd/") && dir != "release" {
			continue // benchmarks' own commands may measure anything
		}
		may, known := mayImport(dir, p)
		if !known && len(p.GoFiles) > 0 {
			t.Errorf("%s: a new package; give it a row in the table of arch_test.go", dir)
		}
		for _, imp := range p.Imports {
			rel, ours := strings.CutPrefix(imp, module)
			rel = strings.TrimPrefix(rel, "/")
			if rel == "" {
				rel = "."
			}
			if ours && !slices.Contains(may, rel) {
				t.Errorf("%s imports %s, which is not in its row", dir, rel)
			}
			if !ours && isStandardOnly(dir) && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				t.Errorf("%s imports %s; it may import the standard library only", dir, imp)
			}
		}
	}
}

// TestInternalStaysSmall counts the directories directly in internal/. Each is a wing, or shared by several wings; a package
// that only one tree uses is in the internal/ of that tree.
func TestInternalStaysSmall(t *testing.T) {
	entries, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 16 {
		t.Errorf("internal/ has %d directories; put a package below the tree that uses it", len(entries))
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for dir, p := range packages(t) {
		if len(p.GoFiles) > 0 && strings.TrimSpace(p.Doc) == "" {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

func TestProductionCodeStartsNoContextAndSleepsNowhere(t *testing.T) {
	forbidden := regexp.MustCompile(`context\.(Background|TODO)\(\)|"testing"`)
	for dir, p := range packages(t) {
		if dir == "cmd/segno" || strings.HasPrefix(dir, "internal/testing/") || dir == "store/storetest" || dir == "store/kv/kvtest" || dir == "store/postgres/buckettest" || dir == "world/worldtest" || p.Name == "main" {
			continue // main creates the root context; the others serve tests
		}
		for _, name := range p.GoFiles {
			eachLine(t, filepath.Join(dir, name), func(n int, line string) {
				if forbidden.MatchString(line) {
					t.Errorf("%s/%s:%d: %s", dir, name, n, strings.TrimSpace(line))
				}
			})
		}
	}
}

// pathAccess matches the calls that reach a file by its whole path. A symlink that another
// process puts into the path redirects such a call.
const pathAccess = `\bos\.(ReadFile|WriteFile|ReadDir|Open|OpenFile|OpenRoot|OpenInRoot|Create|CreateTemp|DirFS|CopyFS|Mkdir|MkdirAll|MkdirTemp|` +
	`Remove|RemoveAll|Rename|Link|Symlink|Readlink|Stat|Lstat|Chmod|Chown|Lchown|Chtimes|Truncate)\(|` +
	`\bfilepath\.(Walk|WalkDir|Glob|EvalSymlinks)\(|"io/ioutil"`

// TestWorkspaceReachesFilesThroughDirectoryHandles bans access by path in package workspace,
// because other users or agents may change the files there. The package opens each directory
// from its parent. The exceptions find a root, and open it.
func TestWorkspaceReachesFilesThroughDirectoryHandles(t *testing.T) {
	forbidden := regexp.MustCompile(pathAccess)
	exceptions := map[string]string{
		"dir.go":      "filepath.EvalSymlinks(", // the root's own path
		"identity.go": "os.Stat(",               // whether a known root is where it was
		"root.go":     "os.Lstat(",              // which directory is the root
	}
	files, err := filepath.Glob("workspace/*.go") // includes the files for other systems
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		eachLine(t, file, func(n int, line string) {
			for _, call := range forbidden.FindAllString(line, -1) {
				if call != exceptions[name] {
					t.Errorf("%s:%d: %s reaches a file by its path; use treeWriter or dirHandle", file, n, call)
				}
			}
		})
	}
}

// TestNothingStartsGit bans git as a command. In a repository of unknown origin, even a
// query makes git run the programs that the configuration names.
func TestNothingStartsGit(t *testing.T) {
	command := regexp.MustCompile(`\bexec\.(Command|CommandContext|LookPath)\(.*"git"|StartProcess\(.*"git"`)
	for dir, p := range packages(t) {
		if dir == "bench" || dir == "internal/testing/soak/campaign" || dir == "release" {
			continue // one measures git in repositories that it makes, the others ask for the commit of this repository
		}
		for _, name := range p.GoFiles {
			eachLine(t, filepath.Join(dir, name), func(n int, line string) {
				if command.MatchString(line) {
					t.Errorf("%s/%s:%d starts git: %s", dir, name, n, strings.TrimSpace(line))
				}
			})
		}
	}
}

// TestNothingChoosesBatchedCommits verifies that hooks, moves and all other code of the module sync their commits: only a
// caller's configuration names segno.Batched.
func TestNothingChoosesBatchedCommits(t *testing.T) {
	choice := regexp.MustCompile(`^[^/]*\bBatched\b`)
	for dir, p := range packages(t) {
		if dir == "." || dir == "store/sqlite" || dir == "store/storetest" || dir == "bench" {
			continue // they declare, implement, test and measure it
		}
		for _, name := range p.GoFiles {
			eachLine(t, filepath.Join(dir, name), func(n int, line string) {
				if choice.MatchString(line) {
					t.Errorf("%s/%s:%d: %s", dir, name, n, strings.TrimSpace(line))
				}
			})
		}
	}
}

func TestFilesStayShort(t *testing.T) {
	for dir, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			lines := 0
			eachLine(t, filepath.Join(dir, name), func(int, string) { lines++ })
			if lines > 600 {
				t.Errorf("%s/%s has %d lines; split it by its nouns", dir, name, lines)
			}
		}
	}
}

// identifier matches names in backticks that look like Go identifiers: with a capital letter after a dot or at the beginning, as in
// `kv.KV`, `App.Print(v)` and `app.addVerbs`.
var identifier = regexp.MustCompile(`\x60(?:\w+\.([a-z]*[A-Z]\w*)|([A-Z]\w*))(?:\([^\x60]*\))?\x60`)

// TestDocumentsNameIdentifiersThatExist checks that some Go file declares each identifier in ARCHITECTURE.md and CONTRIBUTING.md. A name
// in capitals alone is a variable of a shell.
func TestDocumentsNameIdentifiersThatExist(t *testing.T) {
	declared := declaredNames(t)
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		eachLine(t, name, func(n int, line string) {
			for _, m := range identifier.FindAllStringSubmatch(line, -1) {
				if id := m[1] + m[2]; !declared[id] && id != strings.ToUpper(id) {
					t.Errorf("%s:%d names %s, which no Go file declares", name, n, m[0])
				}
			}
		})
	}
}

// declaredNames returns the names that the Go files of all modules declare: functions, methods, types, constants, variables and
// the fields of structs.
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if file == nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			case *ast.Field:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTheMapIsTrue checks that every path in ARCHITECTURE.md and CONTRIBUTING.md exists. If these documents name a
// declaration in a Go file, the file must have it.
func TestTheMapIsTrue(t *testing.T) {
	path := regexp.MustCompile(`(?:^|[\s("\x60])((?:[a-z_]+/)+[a-z_]*(?:\.\w+)?)(?:$|[\s)",.:;\x60])`)
	inFile := regexp.MustCompile(`\x60(\w+)\x60 in ([a-z/_]+\.go)`)
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		eachLine(t, name, func(n int, line string) {
			for _, m := range path.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(m[1]); err != nil && !isGenerated(m[1]) {
					t.Errorf("%s:%d names %s: %v", name, n, m[1], err)
				}
			}
			for _, m := range inFile.FindAllStringSubmatch(line, -1) {
				if data, err := os.ReadFile(m[2]); err != nil || !strings.Contains(string(data), m[1]) {
					t.Errorf("%s:%d: %s is not in %s (%v)", name, n, m[1], m[2], err)
				}
			}
		})
	}
	lines := 0
	eachLine(t, "ARCHITECTURE.md", func(int, string) { lines++ })
	if lines > 200 {
		t.Errorf("ARCHITECTURE.md has %d lines; it is a map, not a book", lines)
	}
}

// isGenerated reports whether a command creates a path, so that the path is not in the repository.
func isGenerated(path string) bool {
	return strings.HasPrefix(path, "build/") || strings.HasPrefix(path, "dist/")
}

func eachLine(t *testing.T, name string, f func(n int, line string)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		f(n, s.Text())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}
