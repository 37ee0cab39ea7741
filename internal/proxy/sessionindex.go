package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/vfs"
)

// sessionIndex records the sessions that clients know, one small file each, beside the
// store's database. It also has sessions without a thread, because they never had a prompt,
// and it can map a client's id to another thread.
type sessionIndex struct {
	dir    string
	fs     vfs.FS      // nil means [vfs.OS]
	sealer indexSealer // encrypts the files; nil for plain files
}

// indexSealer is the subset of [local.Store] that encrypts files.
type indexSealer interface {
	SealFile(name string, plain []byte) []byte
	OpenFile(name string, data []byte) ([]byte, error)
}

// sessionRecord is the index's record of one session.
type sessionRecord struct {
	Client   segno.SessionID `json:"client"`           // the id that the client keeps
	Thread   segno.ThreadID  `json:"thread,omitempty"` // "" before the first prompt
	Agent    string          `json:"agent"`
	Upstream segno.SessionID `json:"upstream"`       // the agent's id until there is a thread, whose chain then has it
	Name     string          `json:"name,omitempty"` // distinguishes it from an earlier session with the agent's same id
	Dir      string          `json:"dir"`
	Title    string          `json:"title,omitempty"`
	Opened   time.Time       `json:"opened"`
	Used     time.Time       `json:"used"`
	Settings []setting       `json:"settings,omitempty"` // the client's choices, in order
	Deleted  bool            `json:"deleted,omitempty"`
	Foreign  bool            `json:"foreign,omitempty"` // the agent had it before the proxy, and may have turns of it
	// IncompleteHistory is set if the agent had turns from before segno and did not replay them.
	IncompleteHistory bool `json:"unheard,omitempty"`
}

// row returns the record as an element of session/list.
func (r *sessionRecord) row() json.RawMessage {
	row := map[string]any{"sessionId": r.Client, "cwd": r.Dir, "updatedAt": r.Used.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	if r.Title != "" {
		row["title"] = r.Title
	}
	return acp.Encode(row)
}

func (x sessionIndex) folder() string { return filepath.Join(x.dir, "acp") }

func (x sessionIndex) file(id segno.SessionID) string {
	return filepath.Join(x.folder(), segno.DerivedID("session", string(id))+".json")
}

// files is the file system of the index.
func (x sessionIndex) files() vfs.FS {
	if x.fs == nil {
		return vfs.OS
	}
	return x.fs
}

// has reports whether the index has a record for a client's id, even a damaged one.
func (x sessionIndex) has(id segno.SessionID) bool {
	_, err := os.Lstat(x.file(id))
	return err == nil
}

// read returns the record for a client's id. The error is [segno.KindNotFound] if there is
// none, and [segno.KindCorrupt] if the record cannot be decoded.
func (x sessionIndex) read(id segno.SessionID) (sessionRecord, error) { return x.readFile(x.file(id)) }

func (x sessionIndex) readFile(file string) (r sessionRecord, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, segno.NewError(segno.KindNotFound, "read session", "", nil)
	}
	if err != nil {
		return r, segno.NewError(segno.KindIO, "read session", file, err)
	}
	if x.sealer != nil {
		data, err = x.sealer.OpenFile(file, data)
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && x.file(r.Client) != file {
		err = fmt.Errorf("it is the record of another session, %q", r.Client)
	}
	if err != nil {
		return sessionRecord{}, segno.NewError(segno.KindCorrupt, "read session", file, err).
			WithHint("move the file aside; its thread is in 'segno threads'")
	}
	return r, nil
}

// write makes a record durable.
func (x sessionIndex) write(r sessionRecord) error {
	fsys := x.files()
	data := append(acp.Encode(r), '\n')
	if x.sealer != nil {
		data = x.sealer.SealFile(x.file(r.Client), data)
	}
	err := vfs.MkdirAll(fsys, x.folder())
	if err == nil {
		err = vfs.Replace(fsys, x.file(r.Client), data, 0o600)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "record session", string(r.Client), err)
	}
	return nil
}

// indexWait is the longest wait for the lock of the index. A process holds it while it writes a few small files.
const indexWait = 10 * time.Second

// lock keeps other processes from writing records between a read and a write of this process. The file of the lock is never removed, so
// that all processes lock the same file. It is not in the folder of the records, because a conversion seals all files there.
func (x sessionIndex) lock(ctx context.Context) (unlock func(), err error) {
	const op = "record session"
	dir := filepath.Join(x.dir, "locks")
	if err := vfs.MkdirAll(x.files(), dir); err != nil {
		return nil, segno.NewError(segno.KindIO, op, "", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "acp"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, "", err)
	}
	err = vfs.Lock(ctx, f, indexWait)
	if err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	if errors.Is(err, vfs.ErrLocked) {
		return nil, segno.NewError(segno.KindBusy, op, "", err)
	}
	return nil, segno.NewError(segno.KindIO, op, "", err)
}

// all returns all records, including those of deleted sessions. The most recently used comes
// first. It skips damaged records, so that one of them does not hide the others.
func (x sessionIndex) all() ([]sessionRecord, error) {
	names, err := os.ReadDir(x.folder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, segno.NewError(segno.KindIO, "list sessions", x.folder(), err)
	}
	var all []sessionRecord
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), ".json") {
			continue
		}
		if r, err := x.readFile(filepath.Join(x.folder(), n.Name())); err == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b sessionRecord) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Client, b.Client)) })
	return all, nil
}
