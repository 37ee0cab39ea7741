//go:build linux && (amd64 || arm64)

package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// The benchmarks compare with the minimum of work, measured in the same run, because ratios are
// stable on a busy machine and times are not.

// goTree returns a fixture with a copy of GOROOT, about 15,000 files.
func goTree(b *testing.B) *fixture {
	b.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must(b, err)
	p := newFixture(b)
	must(b, os.Remove(p.root))
	must(b, os.CopyFS(p.root, os.DirFS(strings.TrimSpace(string(out)))))
	return p
}

// against runs base and subject alternately, and prepare before subject without timing it, and
// reports the medians and their ratio.
func against(b *testing.B, bar float64, base, prepare, subject func()) {
	b.Helper()
	var bases, subjects []time.Duration
	for b.Loop() {
		runtime.GC()
		t := time.Now()
		base()
		bases = append(bases, time.Since(t))
		prepare()
		runtime.GC()
		t = time.Now()
		subject()
		subjects = append(subjects, time.Since(t))
	}
	x, y := median(bases), median(subjects)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(x)/1e6, "base-ms")
	b.ReportMetric(float64(y)/1e6, "ms")
	b.ReportMetric(float64(y)/float64(x), "ratio")
	b.ReportMetric(bar, "bar")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func BenchmarkScanUnchanged(b *testing.B) {
	p := goTree(b)
	p.save()
	against(b, 1.2, func() { walk(b, p.root) }, func() {}, func() { p.save() })
}

func BenchmarkSnapshotOneFile(b *testing.B) {
	p := goTree(b)
	p.save()
	n := 0
	edit := func() {
		n++
		p.write("src/fmt/print.go", fmt.Sprint(n))
	}
	against(b, 1.6, func() { walk(b, p.root) }, edit, func() { p.save() })
}

func BenchmarkSnapshotFirst(b *testing.B) {
	p := goTree(b)
	d := p.other(workspace.Options{})
	against(b, 2.5, func() { readAll(b, p.root) }, func() {}, func() {
		_, err := d.Snapshot(b.Context(), nowhere{})
		must(b, err)
	})
}

// BenchmarkRestoreAndSave measures a restore, and a snapshot of the result.
func BenchmarkRestoreAndSave(b *testing.B) {
	benchmarkRestore(b, func(p *fixture) { p.saveAt("src/fmt/print.go") })
}

func BenchmarkRestoreOneFile(b *testing.B) { benchmarkRestore(b, func(*fixture) {}) }

func benchmarkRestore(b *testing.B, after func(*fixture)) {
	p := goTree(b)
	states := [2]segno.Snapshot{p.save()}
	p.write("src/fmt/print.go", "changed")
	states[1] = p.save()
	n := 0
	against(b, 2, func() { walk(b, p.root) }, func() {}, func() {
		if c := p.restore(states[n%2]); len(c) > 0 {
			b.Fatal(c)
		}
		after(p)
		n++
	})
}

// walk only stats every entry of a tree, on all processors.
func walk(b *testing.B, root string) {
	each(b, root, nil)
}

// readAll reads and hashes every file of a tree, on all processors.
func readAll(b *testing.B, root string) {
	each(b, root, func(dirfd int, name []byte, size int64, buf *[]byte) {
		fd, err := unix.Openat(dirfd, string(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(b, err)
		defer unix.Close(fd)
		if int64(cap(*buf)) < size {
			*buf = make([]byte, size)
		}
		n, err := unix.Read(fd, (*buf)[:size])
		must(b, err)
		sha256.Sum256((*buf)[:n])
	})
}

// each walks with getdents and fstatat, and opens each directory by its path.
func each(b *testing.B, root string, file func(dirfd int, name []byte, size int64, buf *[]byte)) {
	var mu sync.Mutex
	ready := sync.NewCond(&mu)
	stack, busy := []string{root}, 0
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			buf, content := make([]byte, 32<<10), make([]byte, 0, 1<<20)
			mu.Lock()
			defer mu.Unlock()
			for {
				for len(stack) == 0 && busy > 0 {
					ready.Wait()
				}
				if len(stack) == 0 {
					ready.Broadcast()
					return
				}
				dir := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				busy++
				mu.Unlock()
				found := list(b, dir, buf, &content, file)
				mu.Lock()
				busy--
				stack = append(stack, found...)
				ready.Broadcast()
			}
		})
	}
	wg.Wait()
}

func list(b *testing.B, dir string, buf []byte, content *[]byte, file func(int, []byte, int64, *[]byte)) (found []string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(b, err)
	defer unix.Close(fd)
	var st unix.Stat_t
	for {
		n, err := unix.Getdents(fd, buf)
		must(b, err)
		if n == 0 {
			return found
		}
		for rest := buf[:n]; len(rest) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			record := rest[unsafe.Offsetof(d.Name):d.Reclen]
			rest = rest[d.Reclen:]
			name := record[:bytes.IndexByte(record, 0)]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&record[0])),
				uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
			if errno != 0 {
				b.Fatal(errno)
			}
			switch {
			case st.Mode&unix.S_IFMT == unix.S_IFDIR:
				found = append(found, filepath.Join(dir, string(name)))
			case file != nil && st.Mode&unix.S_IFMT == unix.S_IFREG:
				file(fd, name, st.Size, content)
			}
		}
	}
}
