package workspace

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// gitIgnored returns which of the large files git ignores, by one question to each
// repository that has any. Where git cannot say, nothing is ignored. The index
// keeps the answer until the file changes.
func (v *view) gitIgnored(ctx context.Context) (map[string]bool, error) {
	byRepo := make(map[string][]string)
	for _, t := range v.scan.large {
		repo := v.repository(t.n.path)
		for _, i := range t.files {
			path := join(t.n.path, t.n.entries[i].name)
			byRepo[repo] = append(byRepo[repo], path)
		}
	}
	ignored := make(map[string]bool)
	for repo, paths := range byRepo {
		for _, path := range checkIgnore(ctx, filepath.Join(v.dir.root, repo), repo, paths) {
			ignored[path] = true
		}
	}
	return ignored, ctx.Err()
}

// repository returns the deepest directory at or above path, in the tree, that has
// a .git, or the root.
func (v *view) repository(path string) string {
	repo, n := "", v.top
	for name := range strings.SplitSeq(path, "/") {
		e := n.find(name)
		if e == nil || e.kind != kindDir {
			break
		}
		if n = e.child; n.find(".git") != nil {
			repo = n.path
		}
	}
	return repo
}

// checkIgnore asks git in dir, which is repo in the tree, about paths of the tree.
// git writes nothing: optional locks are off, and so is the file system monitor,
// which would start a program the repository names.
func checkIgnore(ctx context.Context, dir, repo string, paths []string) (ignored []string) {
	var in bytes.Buffer
	for _, path := range paths {
		rel, _ := inside(repo, path)
		if repo == "" {
			rel = path
		}
		in.WriteString(rel)
		in.WriteByte(0)
	}
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "-C", dir, "check-ignore", "--stdin", "-z")
	cmd.Env = append(withoutGit(os.Environ()), "GIT_OPTIONAL_LOCKS=0")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		return nil // no git, no repository, or nothing ignored
	}
	for rel := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		ignored = append(ignored, join(repo, rel))
	}
	return ignored
}

// withoutGit drops git's own variables: inside a git hook they name a repository
// and an index that need not be the ones asked about.
func withoutGit(env []string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, "GIT_") {
			out = append(out, kv)
		}
	}
	return out
}
