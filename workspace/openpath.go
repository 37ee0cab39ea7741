package workspace

import (
	"path"
	"strings"
)

// openPath keeps open directories from the path of the last opened directory, so that opening
// another one nearby takes few calls. It opens a directory name by name. In a deep tree it keeps
// only the deepest directories and every keptLevels-th one above them. A walk down and up again
// then opens each directory a bounded number of times, with few open files.
type openPath[D any] struct {
	path string // of the last directory, without the closed directories at its end
	dirs []openedDir[D]
}

// openedDir is one directory of the path.
type openedDir[D any] struct {
	end    int // the end of its path in openPath.path
	dir    D
	isOpen bool
}

const (
	keptLast   = 100
	keptLevels = 128
)

// open opens the directory at path below top. enter opens the directory called name in another one;
// at is its path. The result is valid until the next call of open.
func (o *openPath[D]) open(top D, path string, enter func(in D, name, at string) (D, error), closeDir func(D)) (D, error) {
	if path == "" {
		return top, nil
	}
	level := o.countShared(path)
	o.closeFrom(level, closeDir)
	for level > 0 && !o.dirs[level-1].isOpen {
		level--
	}
	last := top
	if level > 0 {
		last = o.dirs[level-1].dir
	}
	for start := o.end(level); start < len(path); level++ {
		start += min(start, 1) // skip the slash
		end := len(path)
		if n := strings.IndexByte(path[start:], '/'); n >= 0 {
			end = start + n
		}
		dir, err := enter(last, path[start:end], path[:end])
		if err != nil {
			o.closeFrom(level, closeDir)
			return last, err
		}
		if level == len(o.dirs) {
			o.dirs = append(o.dirs, openedDir[D]{})
		}
		o.dirs[level] = openedDir[D]{end, dir, true}
		o.path = path[:max(end, o.end(len(o.dirs)))]
		if far := level - keptLast; far >= 0 && far%keptLevels != 0 && o.dirs[far].isOpen {
			closeDir(o.dirs[far].dir)
			o.dirs[far].isOpen = false
		}
		last, start = dir, end
	}
	return last, nil
}

// end returns the end of the path of the first level directories.
func (o *openPath[D]) end(level int) int {
	if level == 0 {
		return 0
	}
	return o.dirs[level-1].end
}

// countShared returns how many of the open directories are also on path.
func (o *openPath[D]) countShared(path string) int {
	same := 0
	for same < len(path) && same < len(o.path) && path[same] == o.path[same] {
		same++
	}
	level := len(o.dirs)
	for level > 0 {
		if end := o.dirs[level-1].end; end < same || end == same && (same == len(path) || path[same] == '/') {
			break
		}
		level--
	}
	return level
}

// closeFrom closes the directories from a level on.
func (o *openPath[D]) closeFrom(level int, closeDir func(D)) {
	for _, d := range o.dirs[level:] {
		if d.isOpen {
			closeDir(d.dir)
		}
	}
	o.dirs = o.dirs[:level]
	o.path = o.path[:o.end(level)]
}

// A treeReader opens directories of a tree for reading, one at a time. No component may be a
// symlink.
type treeReader struct {
	top *dirHandle
	way openPath[*dirHandle]
}

// dir opens the directory at a path; "" is the top. The result is valid until the next call of dir.
func (r *treeReader) dir(at string) (*dirHandle, error) {
	return r.way.open(r.top, at, func(in *dirHandle, name, _ string) (*dirHandle, error) { return in.openDir(name) }, (*dirHandle).close)
}

// openRegular is [dirHandle.openRegular] for the file at p.
func (r *treeReader) openRegular(p string) (*fileHandle, stat, error) {
	dir, err := r.dir(dirOf(p))
	if err != nil {
		return nil, stat{}, err
	}
	return dir.openRegular(path.Base(p))
}

// close closes the directories below the top.
func (r *treeReader) close() { r.way.closeFrom(0, (*dirHandle).close) }
