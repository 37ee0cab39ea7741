package cli

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
)

// Compare sets whether a database changed since the head, or cannot be read.
func (i *AttachedItem) Compare(changes []segno.Change, unread []segno.Conflict) {
	path := segno.DatabasePath(i.Name)
	i.Changed = slices.ContainsFunc(changes, func(c segno.Change) bool { return c.Path == path })
	if at := slices.IndexFunc(unread, func(u segno.Conflict) bool { return u.Path == path }); at >= 0 {
		i.Unread = unread[at].Why
	}
}

// AttachedItem is an attached database in a result.
type AttachedItem struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // absolute; "" for a database on a server
	// URL is the database on a server if the name is that of another one, because the workspace is a fork.
	URL string `json:"url,omitempty"`
	// Changed is set by status if the database differs from the head.
	Changed bool `json:"changed,omitempty"`
	// Unread is the reason why the database cannot be read. status and doctor set it. Hint is set only by doctor.
	Unread string `json:"unread,omitempty"`
	Hint   string `json:"hint,omitempty"`

	PathBytes []byte `json:"path_bytes,omitempty"`
}

// NewAttachedItem describes the attachment of a database to the workspace at root.
func NewAttachedItem(root string, at database.Attachment) AttachedItem {
	if at.Kind == database.KindPostgres {
		item := AttachedItem{Name: at.Name, Kind: at.Kind}
		if name := at.ServerName(); name != at.Name {
			item.URL = name
		}
		return item
	}
	file := at.File(root)
	return AttachedItem{Name: at.Name, Kind: at.Kind, Path: file, PathBytes: segno.PathBytes(file)}
}

// Attached returns the databases that are attached to the workspace.
func (d *Workspace) Attached() (items []AttachedItem, err error) {
	all, err := d.Store.Databases(d.Rec.ID)
	for _, at := range all {
		items = append(items, NewAttachedItem(d.Rec.Path, at))
	}
	return items, err
}

// Place returns the place of a database if its name does not contain it, as text for the user, or "".
func (i AttachedItem) Place() string {
	switch {
	case i.URL != "":
		return QuotePath(i.URL)
	case i.Path != "" && !strings.HasSuffix(i.Path, i.Name):
		return QuotePath(i.Path)
	}
	return ""
}

// Describe returns the kind of a database for text output, and its place if the name does not
// contain it.
func (i AttachedItem) Describe() string {
	text := "SQLite database, attached"
	if i.Kind == database.KindPostgres {
		text = "PostgreSQL database, attached"
	}
	if place := i.Place(); place != "" {
		text += ": " + place
	}
	return text
}
