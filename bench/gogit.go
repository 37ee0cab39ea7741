package main

import (
	"path/filepath"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// goGit saves a tree with the go-git library, in a repository outside the tree.
type goGit struct{ worktree *git.Worktree }

func newGoGit(dir, tree string) (*goGit, error) {
	storage := filesystem.NewStorage(osfs.New(filepath.Join(dir, "repo")), cache.NewObjectLRUDefault())
	repo, err := git.Init(storage, nil) // with a worktree, Init would write a .git into it
	if err != nil {
		return nil, err
	}
	settings, err := repo.Config()
	if err != nil {
		return nil, err
	}
	settings.Core.IsBare = false
	if err := repo.SetConfig(settings); err != nil {
		return nil, err
	}
	if repo, err = git.Open(storage, osfs.New(tree)); err != nil {
		return nil, err
	}
	w, err := repo.Worktree()
	return &goGit{w}, err
}

// changed reports whether the tree differs from the newest commit.
func (g *goGit) changed() (bool, error) {
	status, err := g.worktree.Status()
	return err == nil && !status.IsClean(), err
}

// commit saves the tree and puts a commit on top of the newest one.
func (g *goGit) commit() error {
	if _, err := g.changed(); err != nil {
		return err
	}
	if err := g.worktree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		return err
	}
	who := &object.Signature{Name: "bench", Email: "bench@localhost", When: time.Now()}
	_, err := g.worktree.Commit("bench", &git.CommitOptions{Author: who})
	return err
}
