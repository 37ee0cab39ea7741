package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample returns a release with small files in place of the binaries.
func sample(t *testing.T, version string) *release {
	t.Helper()
	r := &release{source: source{version: version, revision: "0123456789abcdef", goVersion: "go1.26.8", time: time.Unix(1_800_000_000, 0).UTC()},
		platforms: parse(t, "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"), binaries: map[platform][]entry{}, notes: "Notes.",
		manuals: []entry{{name: "man/segno.1", data: []byte("page")}}, completed: []entry{{name: "completions/segno.fish", data: []byte("script")}},
		texts: []entry{{name: "LICENSE", data: []byte("license")}, {name: "README.md", data: []byte("text")}},
		modules: []goModule{{path: "example.com/b", version: "v1.0.0", sum: "h1:x", uses: map[string]bool{}},
			{path: ownModule, uses: map[string]bool{"example.com/b": true}}}}
	for _, p := range r.platforms {
		r.binaries[p] = []entry{{"segno", 0o755, []byte(p.String())}, {"segno-hook", 0o755, []byte("hook " + p.String())}}
	}
	return r
}

// writeSample writes the files of a sample into a directory.
func writeSample(t *testing.T, version string) (dir string) {
	t.Helper()
	files, err := sample(t, version).files()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "dist")
	if err := write(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEqualInputGivesEqualBytes makes the files twice.
func TestEqualInputGivesEqualBytes(t *testing.T) {
	first, second := writeSample(t, "1.2.3"), writeSample(t, "1.2.3")
	if read(t, filepath.Join(first, "checksums.txt")) != read(t, filepath.Join(second, "checksums.txt")) {
		t.Error("the checksums of two releases differ")
	}
}

// TestTheFormulaHasTheChecksums compares each address in the formula with the archive.
func TestTheFormulaHasTheChecksums(t *testing.T) {
	dir := writeSample(t, "1.2.3")
	lines := strings.Split(read(t, filepath.Join(dir, "segno.rb")), "\n")
	found := 0
	for n, line := range lines {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), `url "`); ok {
			found++
			base, name := filepath.Split(strings.TrimSuffix(url, `"`))
			if base != "https://github.com/dalsegno/segno/releases/download/v1.2.3/" {
				t.Errorf("address %s", url)
			}
			if want := checksum([]byte(read(t, filepath.Join(dir, name)))); !strings.Contains(lines[n+1], `sha256 "`+want+`"`) {
				t.Errorf("%s: %s, want %s", name, lines[n+1], want)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d addresses", found)
	}
}

// TestANewReleaseReplacesOnlyAnOldOne checks that -out never removes other files.
func TestANewReleaseReplacesOnlyAnOldOne(t *testing.T) {
	dir := writeSample(t, "1.2.3")
	if err := write(dir, []entry{{name: "checksums.txt"}}); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files (%v)", len(left), err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(other, nil); err == nil {
		t.Error("write accepts a directory with other files")
	}
	if _, err := os.Stat(filepath.Join(other, "mine")); err != nil {
		t.Error(err)
	}
}

// TestVersionOfACommit reads the version and the time of commits with and without a tag, and of changed files.
func TestVersionOfACommit(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, variable := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(variable, "a@example.com")
	}
	t.Setenv("GIT_COMMITTER_DATE", "1800000000 +0100")
	if _, err := readSource(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("without a repository: %v", err)
	}
	check := func(what, version string, at int64) {
		t.Helper()
		s, err := readSource(t.Context(), "")
		if err != nil || !strings.HasPrefix(s.version, version) || strings.HasSuffix(s.version, "+changed") != strings.HasSuffix(version, "+changed") || s.time.Unix() != at {
			t.Errorf("%s: version %q of %v (%v), want %s", what, s.version, s.time, err, version)
		}
	}
	execute(t, "git", "init", "-q")
	execute(t, "git", "commit", "-q", "--allow-empty", "-m", "first")
	check("no tag", "0.0.0-g", 1_800_000_000)
	execute(t, "git", "tag", "store/v9.9.9")
	execute(t, "git", "tag", "v1.2.3")
	check("a tag", "1.2.3", 1_800_000_000)
	if err := os.WriteFile("new", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check("a tag and a new file", "1.2.3+changed", 1_800_000_000)
	t.Setenv("SOURCE_DATE_EPOCH", "7")
	check("another time", "1.2.3+changed", 7)
}

func TestNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	if err := os.WriteFile(file, []byte("# Changelog\n\n## Unreleased\n\nnew\n\n### More\n\n- a\n\n## 1.2.3 (2026-11-30)\n\nold\n\n## 1.2\n\nother\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"1.2.3": "old", "0.0.0-g0123456789ab": "new\n\n### More\n\n- a", "1.2.4+changed": "new\n\n### More\n\n- a"} {
		if got, err := readNotes(file, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if _, err := readNotes(file, "1.2.4"); err == nil || !strings.Contains(err.Error(), "## 1.2.4") {
		t.Errorf("a tag without notes: %v", err)
	}
}

// publishing puts scripts in place of gh and npm. They log their arguments; queries fail, as they do before a first release.
func publishing(t *testing.T) (logged func() []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"gh", "npm"} {
		script := "#!/bin/sh\necho " + name + ` "$@" >>` + dir + "/log\n" + `case "$*" in "release view"*|view*|*--jq*) exit 1;; esac` + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() (lines []string) {
		data, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			return nil
		}
		for line := range strings.Lines(string(data)) {
			if !strings.Contains(line, "view") && !strings.Contains(line, "--jq") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
}

// TestPublish checks the order: the page, whose archives the formula names; the packages of the platforms before the one that
// depends on them; and the formula.
func TestPublish(t *testing.T) {
	logged := publishing(t)
	if err := publish(t.Context(), writeSample(t, "1.2.3")); err != nil {
		t.Fatal(err)
	}
	lines := logged()
	for n, want := range []string{"gh release create v1.2.3 ", "segno-linux-x64-1.2.3.tgz", "segno-linux-arm64-1.2.3.tgz", "segno-darwin-x64-1.2.3.tgz", "segno-darwin-arm64-1.2.3.tgz",
		"dalsegno-segno-1.2.3.tgz", "gh api --method PUT repos/dalsegno/homebrew-tap/contents/Formula/segno.rb"} {
		if n >= len(lines) || !strings.Contains(lines[n], want) {
			t.Fatalf("step %d is not %s:\n%s", n, want, strings.Join(lines, "\n"))
		}
	}
	for _, name := range []string{"segno_1.2.3_linux_amd64.tar.gz", "segno_1.2.3_arm64.deb", "install.sh", "checksums.txt", "--verify-tag"} {
		if !strings.Contains(lines[0], name) {
			t.Errorf("the page has no %s: %s", name, lines[0])
		}
	}
	if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "--tag next") }) {
		t.Error("a release has the tag of a version before one")
	}
}

// TestPublishOfAVersionBeforeARelease checks that users who did not ask for such a version do not get it: not from the newest page, not from
// npm, and not from Homebrew, whose tap has one version.
func TestPublishOfAVersionBeforeARelease(t *testing.T) {
	logged := publishing(t)
	if err := publish(t.Context(), writeSample(t, "1.3.0-rc1")); err != nil {
		t.Fatal(err)
	}
	lines := logged()
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "gh release create v1.3.0-rc1 ") || !strings.Contains(lines[0], "--prerelease") {
		t.Errorf("the page is that of a release: %q", lines)
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "npm publish ") || !strings.Contains(line, "--tag next") {
			t.Errorf("it is also published with %s", line)
		}
	}
}

// TestPublishContinuesADraft publishes a release again after an earlier attempt ended while it uploaded the files, and left the page a draft.
func TestPublishContinuesADraft(t *testing.T) {
	for isDraft, wants := range map[string][]string{"true": {"gh release upload v1.2.3 ", "gh release edit v1.2.3 "}, "false": {"npm publish "}} {
		logged := publishing(t)
		dir, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
		script := strings.Replace(read(t, filepath.Join(dir, "gh")), "case", `case "$*" in "release view"*) echo `+isDraft+"; exit 0;; esac\ncase", 1)
		if err := os.WriteFile(filepath.Join(dir, "gh"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := publish(t.Context(), writeSample(t, "1.2.3")); err != nil {
			t.Fatal(err)
		}
		lines := logged()
		for n, want := range wants {
			if n >= len(lines) || !strings.HasPrefix(lines[n], want) {
				t.Errorf("draft %s: step %d is not %s: %q", isDraft, n, want, lines)
			}
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	changed := writeSample(t, "1.2.3")
	if err := os.WriteFile(filepath.Join(changed, "install.sh"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		changed:                                  "install.sh differs",
		writeSample(t, "0.0.0-g0123456789ab"):    "not the version of a tagged commit",
		writeSample(t, "1.2.3+changed"):          "not the version of a tagged commit",
		filepath.Join(t.TempDir(), "no-release"): "checksums.txt",
	} {
		logged := publishing(t)
		if err := publish(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if lines := logged(); len(lines) > 0 {
			t.Errorf("%s, and yet: %v", want, lines)
		}
	}
}
