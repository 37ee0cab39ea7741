package workspace

import (
	"context"
	"math"

	"github.com/dalsegno/segno/workspace/internal/watch"
)

// NewInotifyWatch is [NewWatch] as on a kernel without fanotify for unprivileged processes.
func NewInotifyWatch(ctx context.Context, root, private string, report func(WatchReport)) (*Watch, error) {
	w, err := NewUnreadWatch(ctx, root, private, report)
	if err == nil {
		w.run(ctx)
	}
	return w, err
}

// NewUnreadWatch is NewInotifyWatch, except that only scans read the queue.
func NewUnreadWatch(ctx context.Context, root, private string, report func(WatchReport)) (*Watch, error) {
	return newWatch(root, private, report, watch.OpenInotify)
}

// Merge is [Dir.Merge] without a directory.
func Merge(base, ours, theirs []byte) ([]byte, string) { return (*Dir)(nil).Merge(base, ours, theirs) }

// SetBudget gives snapshots of d another budget.
func (d *Dir) SetBudget(bytes int64, levels int) { d.budget.bytes, d.budget.levels = bytes, levels }

// SetListNames makes restores of d list directories with list.
func (d *Dir) SetListNames(list func(dir string) ([]string, error)) { d.listNames = list }

// SetBeforeRead makes snapshots of d call do before they read the content of a file.
func (d *Dir) SetBeforeRead(do func()) {
	d.readFull = func(f *fileHandle, buf []byte) (int, error) {
		do()
		return readFull(f, buf)
	}
}

// NewImpatientWatch is [NewWatch], except that its comparisons do not wait.
func NewImpatientWatch(ctx context.Context, root, private string, report func(WatchReport)) (*Watch, error) {
	w, err := newWatch(root, private, report, watch.Open)
	if err == nil {
		w.idle, w.settle = 0, 0
		w.run(ctx)
	}
	return w, err
}

// CompareOnlyWhenAsked makes comparisons of w run only while a test calls Check, and not wait for the event of a change under
// way. A comparison that began during a change, because a busy machine looked idle, would count it as missed.
func (w *Watch) CompareOnlyWhenAsked() { w.settle, w.idle = 0, math.MaxInt64 }

// FoldsNames reports whether a restore lists a directory, because a lookup in it may find a name in another spelling.
func FoldsNames(path string) (bool, error) {
	d, err := openRoot(path)
	if err != nil {
		return false, err
	}
	defer d.close()
	return foldsNames(d), nil
}

// BornAt returns the time at which a directory was made, if the file system records it.
var BornAt = bornAt
