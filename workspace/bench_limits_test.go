//go:build linux

package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes nested directories, with a file in each.
func (p *fixture) deep(levels int) {
	p.t.Helper()
	at, err := unix.Open(p.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(p.t, err)
	for i := range levels {
		must(p.t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(p.t, err)
		must(p.t, unix.Close(at))
		at = next
		f, err := unix.Openat(at, "f", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		must(p.t, err)
		_, err = unix.Write(f, fmt.Append(nil, i))
		must(p.t, err)
		must(p.t, unix.Close(f))
	}
	must(p.t, unix.Close(at))
}

// BenchmarkRestoreOneDirectory restores all files of one directory, and compares that with the
// minimum of work: create and rename the files, and sync the file system. Both begin with the
// removal of the files, which is not timed: ext4 without a journal skips every recently freed
// inode, so that creating files is slow after removing as many.
func BenchmarkRestoreOneDirectory(b *testing.B) {
	const files = 50_000
	p := newFixture(b)
	plain := b.TempDir()
	write := func(dir string) {
		for i := range files {
			temp := filepath.Join(dir, "temp")
			must(b, os.WriteFile(temp, fmt.Append(nil, i), 0o644))
			must(b, os.Rename(temp, filepath.Join(dir, fmt.Sprint(i))))
		}
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(b, err)
		must(b, unix.Syncfs(fd))
		must(b, unix.Close(fd))
	}
	clear := func(dir string) {
		must(b, os.RemoveAll(dir))
		must(b, os.Mkdir(dir, 0o755))
	}
	clear(p.path("many"))
	write(p.path("many"))
	write(plain)
	s := p.save()
	against(b, 4, func() {
		clear(plain)
		write(plain)
	}, func() {}, func() {
		clear(p.path("many"))
		if c := p.restore(s); len(c) > 0 {
			b.Fatal(len(c), c[0])
		}
	})
}

// BenchmarkForkDeep compares a fork of a tree with 1,500 levels with one of 500: the work for
// each level must not grow.
func BenchmarkForkDeep(b *testing.B) {
	flat, deep := newFixture(b), newFixture(b)
	flat.deep(500)
	deep.deep(1500)
	fork := func(p *fixture) func() {
		s := p.save()
		dir := b.TempDir()
		n := 0
		return func() {
			n++
			_, err := p.dir.Fork(b.Context(), s, filepath.Join(dir, fmt.Sprint(n)))
			must(b, err)
		}
	}
	against(b, 4, fork(flat), func() {}, fork(deep))
}
