// Package einofiles gives the agents of Eino's ADK a directory whose files segno saves. [Files] is a
// filesystem.Backend and a filesystem.Shell, from version 0.9 of Eino on; earlier versions have other interfaces.
//
// In a run of segnoeino whose Checkpoints have the same timeline, each step saves the files. Elsewhere, as with an
// ADK runner, each call that changes files is a checkpoint. Undo, redo and restore of the timeline move the files.
package einofiles

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cloudwego/eino/adk/filesystem"
	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/timeline"
)

// Files is a directory as Eino's agents use it. A path is relative to the directory, even if it begins with a slash,
// or it is the directory's own absolute path and what follows it. No path, and no symbolic link, leads out of the
// directory; a command of Execute may reach everything.
type Files struct {
	timeline *timeline.Timeline
	root     *os.Root
	mu       sync.RWMutex // Eino runs the calls of one answer at the same time; an edit reads and writes
}

var (
	_ filesystem.Backend = (*Files)(nil)
	_ filesystem.Shell   = (*Files)(nil)
)

// Open returns the files of a timeline's workspace; see agent.OpenTimeline.
func Open(tl *timeline.Timeline) (*Files, error) {
	root, err := os.OpenRoot(tl.Workspace.Root())
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "open files", tl.Workspace.Root(), err)
	}
	return &Files{timeline: tl, root: root}, nil
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// rel returns a path relative to the directory: "." for the directory.
func (f *Files) rel(name string) string {
	if rest, ok := strings.CutPrefix(name, f.root.Name()); ok && (rest == "" || rest[0] == '/') {
		name = rest
	}
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}

// LsInfo implements [filesystem.Backend].
func (f *Files) LsInfo(_ context.Context, req *filesystem.LsInfoRequest) ([]filesystem.FileInfo, error) {
	name := f.rel(req.Path)
	info, err := f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("list", name, err)
	}
	if !info.IsDir() {
		return []filesystem.FileInfo{fileInfo(path.Base(name), info)}, nil
	}
	entries, err := fs.ReadDir(f.root.FS(), name)
	if err != nil {
		return nil, failed("list", name, err)
	}
	var all []filesystem.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was deleted meanwhile
			all = append(all, fileInfo(e.Name(), info))
		}
	}
	return all, nil
}

func fileInfo(name string, info fs.FileInfo) filesystem.FileInfo {
	out := filesystem.FileInfo{Path: name, IsDir: info.IsDir(), ModifiedAt: info.ModTime().Format(time.RFC3339Nano)}
	if !out.IsDir {
		out.Size = info.Size()
	}
	return out
}

// Read implements [filesystem.Backend].
func (f *Files) Read(ctx context.Context, req *filesystem.ReadRequest) (*filesystem.FileContent, error) {
	name := f.rel(req.FilePath)
	f.mu.RLock()
	memory, err := f.load(ctx, name)
	f.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	return memory.Read(ctx, &filesystem.ReadRequest{FilePath: name, Offset: req.Offset, Limit: req.Limit})
}

// maxSearched is the size from which a file is not searched.
const maxSearched = 16 << 20

// GrepRaw implements [filesystem.Backend]. It does not search large files, files with a zero byte, and .git.
func (f *Files) GrepRaw(ctx context.Context, req *filesystem.GrepRequest) ([]filesystem.GrepMatch, error) {
	memory, at := filesystem.NewInMemoryBackend(), f.rel(req.Path)
	f.mu.RLock()
	err := f.walk(ctx, at, func(name string, info fs.FileInfo) error {
		if info.Size() > maxSearched {
			return nil
		}
		data, err := f.root.ReadFile(name)
		if err != nil || bytes.IndexByte(data, 0) >= 0 {
			return nil // an unreadable file does not end the search
		}
		return memory.Write(ctx, &filesystem.WriteRequest{FilePath: name, Content: string(data)})
	})
	f.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	ask := *req
	if ask.Path = at; at == "." {
		ask.Path = ""
	}
	return memory.GrepRaw(ctx, &ask)
}

// GlobInfo implements [filesystem.Backend]. It does not list .git.
func (f *Files) GlobInfo(ctx context.Context, req *filesystem.GlobInfoRequest) ([]filesystem.FileInfo, error) {
	memory, at := filesystem.NewInMemoryBackend(), f.rel(req.Path)
	below := at
	if strings.HasPrefix(req.Pattern, "/") {
		below = "."
	}
	infos := map[string]fs.FileInfo{}
	err := f.walk(ctx, below, func(name string, info fs.FileInfo) error {
		infos[name] = info
		return memory.Write(ctx, &filesystem.WriteRequest{FilePath: name})
	})
	if err != nil {
		return nil, err
	}
	ask := filesystem.GlobInfoRequest{Pattern: req.Pattern, Path: at}
	if at == "." {
		ask.Path = "/"
	}
	all, err := memory.GlobInfo(ctx, &ask)
	for i, found := range all {
		name := path.Join(at, found.Path)
		if strings.HasPrefix(found.Path, "/") {
			name = f.rel(found.Path)
		}
		if info := infos[name]; info != nil {
			all[i] = fileInfo(found.Path, info)
		}
	}
	return all, err
}

// Write implements [filesystem.Backend].
func (f *Files) Write(ctx context.Context, req *filesystem.WriteRequest) error {
	name := f.rel(req.FilePath)
	f.mu.Lock()
	err := f.write(name, req.Content)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.save(ctx, "write "+name)
}

// Edit implements [filesystem.Backend]. Concurrent edits run one after the other.
func (f *Files) Edit(ctx context.Context, req *filesystem.EditRequest) error {
	name := f.rel(req.FilePath)
	if err := f.edit(ctx, name, *req); err != nil {
		return err
	}
	return f.save(ctx, "edit "+name)
}

func (f *Files) edit(ctx context.Context, name string, req filesystem.EditRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	memory, err := f.load(ctx, name)
	if err != nil {
		return err
	}
	req.FilePath = name
	if err := memory.Edit(ctx, &req); err != nil {
		return err
	}
	edited, err := memory.Read(ctx, &filesystem.ReadRequest{FilePath: name})
	if err != nil {
		return err
	}
	return f.write(name, edited.Content)
}

// maxOutput is the number of bytes of a command's output that are kept.
const maxOutput = 1 << 20

// Execute implements [filesystem.Shell]: it runs a command with sh in the directory. The command ends with ctx, and the
// processes in its group end with the command. It cannot run in the background, because its changes would belong to no step.
func (f *Files) Execute(ctx context.Context, req *filesystem.ExecuteRequest) (*filesystem.ExecuteResponse, error) {
	if req.RunInBackendGround {
		return nil, segno.Errorf(segno.KindInvalid, "execute", req.Command, "commands in the background are not supported")
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", req.Command)
	cmd.Dir, cmd.WaitDelay = f.root.Name(), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left in the background
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command succeeded, and a process in the background had its output
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return nil, errors.Join(failed("execute", req.Command, err), f.save(context.WithoutCancel(ctx), "execute "+req.Command))
	}
	code := cmd.ProcessState.ExitCode()
	return &filesystem.ExecuteResponse{Output: out.String(), ExitCode: &code, Truncated: out.truncated}, f.save(ctx, "execute "+req.Command)
}

// limited keeps the first maxOutput bytes.
type limited struct {
	bytes.Buffer
	truncated bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), maxOutput-l.Len())
	l.truncated = l.truncated || keep < len(p)
	_, _ = l.Buffer.Write(p[:keep])
	return len(p), nil
}

// save makes a checkpoint of the files, unless the step of a run will.
func (f *Files) save(ctx context.Context, label string) error {
	if segnoeino.InRun(ctx) {
		return nil
	}
	_, err := f.timeline.Save(ctx, segno.CheckpointCut, label)
	return err
}

// load returns a backend in memory that contains one file.
func (f *Files) load(ctx context.Context, name string) (*filesystem.InMemoryBackend, error) {
	data, err := f.root.ReadFile(name)
	if err != nil {
		return nil, failed("read", name, err)
	}
	memory := filesystem.NewInMemoryBackend()
	return memory, memory.Write(ctx, &filesystem.WriteRequest{FilePath: name, Content: string(data)})
}

func (f *Files) write(name, content string) error {
	if err := f.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return failed("write", name, err)
	}
	if err := f.root.WriteFile(name, []byte(content), 0o666); err != nil {
		return failed("write", name, err)
	}
	return nil
}

// walk calls visit for each regular file at or below a path.
func (f *Files) walk(ctx context.Context, at string, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(f.root.FS(), at, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // it was deleted meanwhile, or is not readable
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		return visit(name, info)
	})
}

func failed(op, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return segno.Errorf(segno.KindNotFound, op, name, "file not found")
	}
	return segno.NewError(segno.KindIO, op, name, err)
}
