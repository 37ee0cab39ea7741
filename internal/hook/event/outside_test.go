package event

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// TestOutside finds the paths outside the workspace that tool calls write.
func TestOutside(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := Bounds{Root: base + "/root", Dir: base + "/root/sub", Home: base + "/home", Agent: base + "/home/.claude"}
	for _, dir := range []string{b.Dir, base + "/away", b.Agent} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{base + "/alias": b.Root, b.Root + "/leads": base + "/away"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	tool := func(name, member, path string) [2]string {
		data, err := json.Marshal(map[string]string{member: strings.ReplaceAll(path, "BASE", base)})
		if err != nil {
			t.Fatal(err)
		}
		return [2]string{name, string(data)}
	}
	sh := func(command string) [2]string { return tool("Bash", "command", command) }
	for _, c := range []struct {
		call [2]string
		want string // paths below base, separated by spaces
	}{
		{tool("Write", "file_path", "BASE/root/a"), ""},
		{tool("Write", "file_path", "BASE/away/a"), "/away/a"},
		{tool("Edit", "file_path", "../../away/a"), "/away/a"},
		{tool("Edit", "file_path", "../a"), ""},
		{tool("Write", "file_path", "~/.bashrc"), "/home/.bashrc"},
		{tool("Write", "file_path", "BASE/alias/new/file"), ""},
		{tool("Write", "file_path", "BASE/root/leads/file"), "/root/leads/file"},
		{tool("Write", "file_path", "BASE/home/.claude/plans/p.md"), ""},
		{tool("Write", "file_path", "BASE/rootless"), "/rootless"},
		{tool("NotebookEdit", "notebook_path", "BASE/away/n.ipynb"), "/away/n.ipynb"},
		{tool("Read", "file_path", "/etc/hosts"), ""},
		{tool("Grep", "path", "/usr"), ""},
		{tool("mcp__fs__write_file", "path", "BASE/away/m"), "/away/m"},
		{tool("mcp__api__get", "path", "/v1/users"), ""},
		{sh("echo 1 > BASE/away/a"), "/away/a"},
		{sh("echo 1 2>/dev/null >> 'BASE/away/a b'"), "/away/a b"},
		{sh("echo x >BASE/root/a; cat < BASE/away/a"), ""},
		{sh("make &>BASE/away/log && sudo rm -rf BASE/away/x BASE/root/y"), "/away/log /away/x"},
		{sh("cp BASE/away/in BASE/root/out"), ""},
		{sh("cp BASE/root/in BASE/away/out; mv BASE/away/1 here"), "/away/1 /away/out"},
		{sh("sed -i s,/a/b,/c, BASE/away/f; sed s,x,/y, BASE/away/g"), "/away/f"},
		{sh("rm $HOME/x BASE/away/* \"BASE/away/$x\""), ""},
		{sh("rm ~/x"), "/home/x"},
		{sh("cat > recorder <<'END' && touch BASE/away/t\nrm BASE/away/never\nEND\nrm BASE/away/really"), "/away/really /away/t"},
		{sh("echo 'rm BASE/away/x' # > BASE/away/y\nif true; then rm BASE/away/z; fi"), "/away/z"},
		{sh("grep -r x / >/dev/null; ls /etc; python3 -c 'open(\"/etc/x\")'"), ""},
		{sh("(cd sub && rm ../x) | tee BASE/away/tee"), "/away/tee"},
		{sh("unfinished 'quote > /x"), ""},
		{[2]string{"shell", `{"command":["bash","-lc","touch ` + base + `/away/c"]}`}, "/away/c"},
		{tool("apply_patch", "command", "*** Begin Patch\n*** Update File: a\n-*** Add File: /no\n*** Move to: ../../away/b\n*** Add File: BASE/away/c\n*** End Patch\n*** Add File: /no"), "/away/b /away/c"},
		{sh("apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: BASE/away/c\n*** Delete File: ../../away/d\n*** End Patch\nEOF"), "/away/c"},
		{[2]string{"Write", `{"file_path":7}`}, ""},
		{[2]string{"Write", `null`}, ""},
	} {
		var want []string
		for _, p := range strings.Split(c.want, " /") {
			if c.want != "" {
				want = append(want, base+"/"+strings.TrimPrefix(p, "/"))
			}
		}
		if got := b.Outside(c.call[0], json.RawMessage(c.call[1])); !slices.Equal(got, want) {
			t.Errorf("%s %s: %q, want %q", c.call[0], c.call[1], got, want)
		}
	}
	// paths in the temporary directory do not count, unless the workspace is in it
	elsewhere := Bounds{Root: "/srv/project", Dir: "/srv/project"}
	if got := elsewhere.Outside("Bash", json.RawMessage(`{"command":"echo > /tmp/x; echo > /srv/other"}`)); !slices.Equal(got, []string{"/srv/other"}) {
		t.Errorf("outside /srv/project: %q", got)
	}
}

// TestClippedInputKeepsItsPath clips a large input.
func TestClippedInputKeepsItsPath(t *testing.T) {
	raw, err := json.Marshal(map[string]string{"content": strings.Repeat("x", 2*segno.MaxUnclipped), "file_path": "/away/big"})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]string{"command": "*** Begin Patch\n*** Add File: in\n" + strings.Repeat("+x\n", segno.MaxUnclipped) + "*** Add File: /away/new\n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"command", "input", "patchText"} { // the fields of Codex and OpenCode
		raw := []byte(strings.Replace(string(patch), "command", field, 1))
		if got := (Bounds{Root: "/srv/project"}).Outside("apply_patch", clipInput("apply_patch", raw)); !slices.Equal(got, []string{"/away/new"}) {
			t.Errorf("outside of a clipped patch in the field %s: %q", field, got)
		}
	}
	clipped := clipInput("Write", raw)
	if got := (Bounds{Root: "/srv/project"}).Outside("Write", clipped); len(clipped) >= len(raw) || !slices.Equal(got, []string{"/away/big"}) {
		t.Errorf("%d bytes became %d, outside %q", len(raw), len(clipped), got)
	}
}
