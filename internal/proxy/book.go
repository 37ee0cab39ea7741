package proxy

import (
	"cmp"
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
	"github.com/dalsegno/segno/internal/vfs"
)

// book remembers the sessions that clients know: one small file each, beside the
// store's database, so that a session that was opened and never prompted is known
// without a thread, and an id can stand for another thread than its first.
type book struct {
	dir string
	fs  vfs.FS
}

// page is what the book has of one session.
type page struct {
	Client   segno.SessionID `json:"client"`           // the id the client keeps
	Thread   segno.ThreadID  `json:"thread,omitempty"` // "" before the first prompt
	Agent    string          `json:"agent"`
	Upstream segno.SessionID `json:"upstream"`       // the agent's id, while there is no thread to say it
	Name     string          `json:"name,omitempty"` // tells it from an earlier session that the agent gave the same id
	Dir      string          `json:"dir"`
	Title    string          `json:"title,omitempty"`
	Opened   time.Time       `json:"opened"`
	Used     time.Time       `json:"used"`
	Settings []setting       `json:"settings,omitempty"` // what the client chose, in order
	Deleted  bool            `json:"deleted,omitempty"`
	Foreign  bool            `json:"foreign,omitempty"` // the agent had it before we saw it: it may hold turns
	Unheard  bool            `json:"unheard,omitempty"` // the agent did not show what it held before the thread's first turn
}

func (b book) fsys() vfs.FS {
	if b.fs == nil {
		return vfs.OS
	}
	return b.fs
}

func (b book) folder() string { return filepath.Join(b.dir, "acp") }

func (b book) file(id segno.SessionID) string {
	return filepath.Join(b.folder(), segno.DerivedID("session", string(id))+".json")
}

// has reports whether the book has a page for a client's id.
func (b book) has(id segno.SessionID) bool {
	_, err := os.Lstat(b.file(id))
	return err == nil
}

// read returns the page of a client's id: [segno.KindNotFound] if there is none.
func (b book) read(id segno.SessionID) (page, error) { return b.readFile(b.file(id)) }

func (b book) readFile(file string) (p page, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, segno.NewError(segno.KindNotFound, "read session", "", nil)
	}
	if err != nil {
		return p, segno.NewError(segno.KindIO, "read session", file, err)
	}
	err = json.Unmarshal(data, &p)
	if err == nil && b.file(p.Client) != file {
		err = fmt.Errorf("it is the page of another session, %q", p.Client)
	}
	if err != nil {
		return page{}, segno.NewError(segno.KindCorrupt, "read session", file, err).WithHint("move the file aside; its thread is in 'segno threads'")
	}
	return p, nil
}

// write makes a page durable.
func (b book) write(p page) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("remember session: %w", err)
	}
	if err := vfs.MkdirAll(b.fsys(), b.folder()); err != nil {
		return segno.NewError(segno.KindIO, "remember session", string(p.Client), err)
	}
	if err := vfs.Replace(b.fsys(), b.file(p.Client), append(data, '\n'), 0o600); err != nil {
		return segno.NewError(segno.KindIO, "remember session", string(p.Client), err)
	}
	return nil
}

// pages returns all pages, those of deleted sessions among them, the newest used first.
// Damaged ones are left out: a list has no use for them.
func (b book) pages() ([]page, error) {
	names, err := os.ReadDir(b.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "list sessions", b.folder(), err)
	}
	var all []page
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), ".json") {
			continue
		}
		p, err := b.readFile(filepath.Join(b.folder(), n.Name()))
		if err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b page) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Client, b.Client)) })
	return all, nil
}
