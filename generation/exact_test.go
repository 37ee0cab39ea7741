package generation_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/timeline"
)

// makeFiles creates files that an archive does not contain, or not exactly.
const makeFiles = `umask 022; echo key > .env; mkdir -p .git/refs empty node_modules/x; echo ref > .git/HEAD; echo '{}' > package.json; echo m > node_modules/x/m
echo private > private; chmod 600 private; mkdir -m 700 closed; ln private linked; ln -s ../../../.. out
mkdir -p ../home/.claude; echo '{"claudeAiOauth":1}' > ../home/.claude/.credentials.json; chmod 600 ../home/.claude/.credentials.json
echo settings > ../home/.claude/settings.json; echo remembered > ../home/.history; chmod 640 ../home/.history`

// listFiles prints everything that an agent can see in its directories.
const listFiles = `for d in . ../home ../run; do (cd $d && find . | sort | while read -r f; do
	stat -c '%n %a %h %F' "$f"; test -L "$f" && readlink "$f"; test ! -d "$f" && stat -c '%y' "$f"; test -f "$f" && cat "$f"; done); done`

// TestFilesThatDoNotTravel fails a generation. The resumed agents find their files exactly as they were at the
// checkpoint, including those that no archive contains.
func TestFilesThatDoNotTravel(t *testing.T) {
	r := newRig(t)
	before, after := r.path("../before"), r.path("../after")
	r.kind.more = func(n int) string {
		switch n {
		case 1:
			return makeFiles
		case 2:
			return "sed -i '$d' notes; (" + listFiles + ") > " + before + "; echo turn >> notes; echo later > .env; rm -r empty ../home/.history; chmod 644 private; exit 1"
		case 3:
			return "sed -i '$d' notes; (" + listFiles + ") > " + after + "; echo turn >> notes"
		}
		return "true"
	}
	c := r.config(1, 2)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, errBefore := os.ReadFile(before)
	got, errAfter := os.ReadFile(after)
	if errBefore != nil || errAfter != nil {
		t.Fatal(errBefore, errAfter)
	}
	if diff := cmp.Diff(withoutNotesTime(string(want)), withoutNotesTime(string(got))); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"./.env 644", "key\n", "./.git/HEAD", "./node_modules/x/m", "./private 600 2", "./closed 700", "./out 777", "./.history 640", "./.claude/.credentials.json 600"} {
		if !strings.Contains(string(got), text) {
			t.Errorf("the resumed agent does not see %q in\n%s", text, got)
		}
	}
}

// withoutNotesTime removes the time of the file that writing the list changes.
func withoutNotesTime(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && strings.HasPrefix(lines[i-1], "./notes ") {
			lines[i] = strings.Repeat("-", min(1, len(line)))
		}
	}
	return strings.Join(lines, "\n")
}

// TestFilesOfAnotherMachineAreNotCopied continues from a checkpoint with files of another machine. The metadata of an archive name
// the checkpoint, and no digest covers the metadata.
func TestFilesOfAnotherMachineAreNotCopied(t *testing.T) {
	r := newRig(t)
	after := r.path("../after")
	r.kind.more = func(n int) string {
		return map[int]string{1: "echo key > .env", 2: "exit 1", 3: "ls -A > " + after}[n]
	}
	c := r.config(1, 2)
	c.Retries = 1
	open := c.Open
	c.Open = func(ctx context.Context, dir string) (*timeline.Timeline, error) {
		tl, err := open(ctx, dir)
		if err == nil {
			tl.Untrusted = func(context.Context) ([]timeline.Untrusted, error) {
				e := segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf([]byte("key\n"))}
				return []timeline.Untrusted{{Thread: "pulled", Files: []timeline.UntrustedFile{{Path: []byte(".env"), Entity: e}}}}, nil
			}
		}
		return tl, err
	}
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadFile(after)
	if err != nil || strings.Contains(string(names), ".env") {
		t.Errorf("the agent finds %q, %v", names, err)
	}
	if incomplete := r.find(generation.EventIncomplete); len(incomplete) == 0 || !strings.Contains(incomplete[0].Error, "another machine") {
		t.Errorf("the events are %+v", incomplete)
	}
}
