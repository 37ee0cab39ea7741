package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// binaries builds the test binaries of parts when the first part needs them, and removes them after the last.
type binaries struct {
	root, dir string
	temp      string // for the temporary files of tests

	mu    sync.Mutex
	built map[string]*binary // by the directory of the package and the arguments of go
}

type binary struct {
	mu   sync.Mutex // held while it is built
	path string     // empty until it is built
	left int        // parts that need it
}

// newBinaries returns the binaries that parts need, in the directory dir. root is the root of the repository.
func newBinaries(root, dir, temp string, parts []part) *binaries {
	b := &binaries{root: root, dir: dir, temp: temp, built: map[string]*binary{}}
	for _, p := range parts {
		key := fmt.Sprint(p.pkg, p.suite.buildArgs())
		if b.built[key] == nil {
			b.built[key] = &binary{}
		}
		b.built[key].left++
	}
	return b
}

// build returns the test binary of a part. The caller calls done after the part.
func (b *binaries) build(ctx context.Context, p part) (path string, done func(), err error) {
	args := p.suite.buildArgs()
	b.mu.Lock()
	x := b.built[fmt.Sprint(p.pkg, args)]
	b.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.path == "" {
		f, err := os.CreateTemp(b.dir, "*.test")
		if err != nil {
			return "", nil, err
		}
		f.Close()
		if p.suite.race && !b.hasCompiler(ctx) {
			args = suite{}.buildArgs()
		}
		if _, err := output(ctx, filepath.Join(b.root, p.pkg), "go", append(args, "-o", f.Name(), ".")...); err != nil {
			return "", nil, err
		}
		x.path = f.Name()
	}
	return x.path, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.left--; x.left == 0 {
			os.Remove(x.path)
		}
	}, nil
}

// hasCompiler reports whether the C compiler of go is installed.
func (b *binaries) hasCompiler(ctx context.Context) bool {
	_, err := output(ctx, b.root, "sh", "-c", `command -v "$(CGO_ENABLED=1 go env CC)"`)
	return err == nil
}
