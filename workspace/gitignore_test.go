package workspace_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// largeSize is just above the size from which git's rules apply.
const largeSize = 8<<20 + 1

// TestASnapshotRunsNoProgramOfARepository saves a repository without its .gitignore and with a
// configuration that names a program to fetch it. The test first shows that a git command would
// run that program.
func TestASnapshotRunsNoProgramOfARepository(t *testing.T) {
	p := newFixture(t)
	git(t, p.root, "init", "-q")
	p.write("sub/.gitignore", "*.bin\n")
	git(t, p.root, "add", ".")
	git(t, p.root, "commit", "-qm", "one")
	blob := git(t, p.root, "rev-parse", ":sub/.gitignore")
	must(t, os.Remove(p.path(".git/objects/"+blob[:2]+"/"+blob[2:])))
	git(t, p.root, "update-index", "--skip-worktree", "sub/.gitignore")
	must(t, os.Remove(p.path("sub/.gitignore")))

	marker, program := filepath.Join(t.TempDir(), "marker"), filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+marker+"'\nexit 1\n"), 0o755))
	for key, value := range map[string]string{
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
		"remote.origin.url": p.root, "remote.origin.uploadpack": program,
	} {
		git(t, p.root, "config", key, value)
	}
	p.sparse("sub/large.bin", largeSize)
	ask := exec.Command("git", "-C", p.root, "check-ignore", "sub/large.bin")
	_ = ask.Run() // fails, because the program is not a server
	if err := os.Remove(marker); err != nil {
		t.Fatalf("git did not run the repository's program, so that this test shows nothing: %v", err)
	}
	if e := p.entities(p.save())["sub/large.bin"]; e.Type != segno.EntityFile {
		t.Errorf("a file whose rules are unknown is %+v, want it saved", e)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("the snapshot ran a program that the repository names")
	}
}

// TestLargeFilesAreIgnoredAsGitDoes compares the files that a snapshot leaves out with the
// result of git check-ignore, for the possible layouts of a repository.
func TestLargeFilesAreIgnoredAsGitDoes(t *testing.T) {
	large := []string{"a.bin", "keep.bin", "b.dat", "excluded.one", "tracked.bin", "sub/a.bin", "sub/c.tmp", "sub/keep.bin", "build/keep.bin", "build/x/y.tmp", "user.own"}
	for name, lay := range map[string]func(t *testing.T, p *fixture) (workspace string){
		"a repository": func(t *testing.T, p *fixture) string { return p.root },
		"index version 4": func(t *testing.T, p *fixture) string {
			git(t, p.root, "update-index", "--index-version", "4")
			return p.root
		},
		"extended entries": func(t *testing.T, p *fixture) string { // these make it version 3
			git(t, p.root, "add", "-N", "-f", "a.bin")
			data, err := os.ReadFile(p.path(".git/index"))
			if must(t, err); binary.BigEndian.Uint32(data[4:]) != 3 {
				t.Fatal("the index is not of version 3")
			}
			return p.root
		},
		"a directory of a repository": func(t *testing.T, p *fixture) string { return p.path("sub") },
		"a worktree": func(t *testing.T, p *fixture) string {
			linked := filepath.Join(filepath.Dir(p.root), "linked")
			git(t, p.root, "worktree", "add", "-q", linked)
			for _, path := range large {
				to := filepath.Join(linked, path)
				must(t, os.MkdirAll(filepath.Dir(to), 0o755))
				must(t, os.WriteFile(to, nil, 0o644))
				must(t, os.Truncate(to, largeSize))
			}
			git(t, linked, "add", "-f", "sub/a.bin")
			return linked
		},
		"SHA-256": func(t *testing.T, p *fixture) string {
			must(t, os.RemoveAll(p.path(".git")))
			git(t, p.root, "init", "-q", "--object-format=sha256")
			git(t, p.root, "add", "-f", "tracked.bin", ".gitignore")
			return p.root
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			git(t, p.root, "init", "-q")
			p.write(".gitignore", "*.bin\n!keep.bin\n/build/\n")
			p.write("sub/.gitignore", "*.tmp\n!a.bin\nkeep.bin\n")
			p.write(".git/info/exclude", "excluded.*\n!b.dat\n")
			for i, path := range large {
				p.sparse(path, largeSize+int64(i))
			}
			p.write("tracked.bin", "small until it is tracked")
			git(t, p.root, "add", "-f", "tracked.bin", ".gitignore")
			git(t, p.root, "commit", "-qm", "one")
			p.sparse("tracked.bin", largeSize)
			user := filepath.Join(t.TempDir(), "ignore")
			must(t, os.WriteFile(user, []byte("*.own\n*.dat\n"), 0o644))

			root := lay(t, p)
			d, err := workspace.Open(root, workspace.Options{ID: "w", Objects: p.store, GitIgnore: user})
			must(t, err)
			found := 0
			for path, e := range p.entities(p.saveBy(d)) {
				if e.Size < largeSize && e.Type != segno.EntityProtected || path == ".git" {
					continue
				}
				found++
				ask := exec.Command("git", "-C", root, "-c", "core.excludesFile="+user, "check-ignore", "-q", path)
				ignored := ask.Run() == nil
				if saved := e.Type == segno.EntityFile; saved == ignored {
					t.Errorf("%s: saved %v (%s), ignored by git %v", path, saved, e.Why, ignored)
				}
			}
			if found == 0 {
				t.Error("no large file was found")
			}
		})
	}
}

// TestHostileGitFilesAreReadSafely uses git files that block, are elsewhere or are damaged: a
// file stays saved if segno cannot read them.
func TestHostileGitFilesAreReadSafely(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "rules")
	must(t, os.WriteFile(elsewhere, []byte("*.bin\n"), 0o644))
	for name, spoil := range map[string]func(t *testing.T, p *fixture){
		"a .gitignore that is a symlink": func(t *testing.T, p *fixture) {
			must(t, os.Remove(p.path(".gitignore")))
			must(t, os.Symlink(elsewhere, p.path(".gitignore")))
		},
		"a .gitignore that is a FIFO": func(t *testing.T, p *fixture) {
			must(t, os.Remove(p.path(".gitignore")))
			must(t, unix.Mkfifo(p.path(".gitignore"), 0o644))
		},
		"an index that is a FIFO": func(t *testing.T, p *fixture) {
			must(t, os.Remove(p.path(".git/index")))
			must(t, unix.Mkfifo(p.path(".git/index"), 0o644))
		},
		"a damaged index": func(t *testing.T, p *fixture) {
			p.write(".git/index", "DIRC\x00\x00\x00\x02\x00\x00\x00\x05"+strings.Repeat("x", 100))
		},
		"a split index": func(t *testing.T, p *fixture) { git(t, p.root, "update-index", "--split-index") },
		"a .git that is a symlink": func(t *testing.T, p *fixture) {
			to := filepath.Join(t.TempDir(), "git")
			must(t, os.Rename(p.path(".git"), to))
			must(t, os.Symlink(to, p.path(".git")))
		},
		"a .git file that leads nowhere": func(t *testing.T, p *fixture) {
			must(t, os.RemoveAll(p.path(".git")))
			p.write(".git", "gitdir: ../nowhere\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			git(t, p.root, "init", "-q")
			p.write(".gitignore", "*.bin\n")
			git(t, p.root, "add", ".gitignore")
			p.sparse("large.bin", largeSize)
			if e := p.entities(p.save())["large.bin"]; e.Type != segno.EntityProtected {
				t.Fatalf("before: %+v", e)
			}
			spoil(t, p)
			must(t, os.Truncate(p.path("large.bin"), largeSize+1))
			if e := p.entities(p.save())["large.bin"]; e.Type != segno.EntityFile {
				t.Errorf("the file is %+v, want it saved", e)
			}
		})
	}
}
