package database

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
)

// Format is the type of the documents.
const Format = "databases/1"

// document is the state of all attached databases at one moment.
type document struct {
	Format    string  `json:"format"`
	Databases []saved `json:"databases"` // sorted by name
}

// saved is the state of one database.
type saved struct {
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	PageSize int        `json:"page_size,omitempty"`
	Pages    int        `json:"pages,omitempty"`
	Bytes    int64      `json:"bytes,omitempty"` // size of a PostgreSQL database
	Content  segno.Hash `json:"content,omitzero"`
	Missing  bool       `json:"missing,omitempty"`
	Unread   string     `json:"unread,omitempty"`

	failure error // the error behind Unread
}

// unread returns the state of a database that could not be read.
func unread(at Attachment, err error) saved {
	return saved{Name: at.Name, Kind: at.Kind, Unread: describeFailure(err), failure: err}
}

// entity returns the state as the type that plans of moves compare.
func (s *saved) entity() segno.Entity {
	switch {
	case s.Missing:
		return segno.Entity{}
	case s.Unread != "":
		return segno.Entity{Type: segno.EntityProtected, Why: s.Unread}
	}
	return segno.Entity{Type: segno.EntityDatabase, Hash: s.Content, Size: s.Bytes + int64(s.Pages)*int64(s.PageSize)}
}

// unread returns the databases that could not be read, with the reasons.
func (d *document) unread() (all []segno.Conflict) {
	for _, s := range d.Databases {
		if s.Unread != "" {
			all = append(all, segno.Conflict{Path: segno.DatabasePath(s.Name), Why: s.Unread})
		}
	}
	return all
}

// find returns the state of a database, or nil.
func (d *document) find(name string) *saved {
	i := slices.IndexFunc(d.Databases, func(s saved) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Databases[i]
}

// readDocument reads a document. The result is empty if d is nil or has another format.
func readDocument(ctx context.Context, objects getter, d *segno.Document) (*document, error) {
	doc := &document{Format: Format}
	if d == nil || d.Type != Format {
		return doc, nil
	}
	data, err := objects.Get(ctx, d.Data)
	if err == nil {
		err = json.Unmarshal(data, doc)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read databases", d.Data.String(), err)
	}
	return doc, nil
}

// getter is the reading part of [segno.Objects].
type getter interface {
	Get(ctx context.Context, name segno.Hash) ([]byte, error)
}

// Trace calls visit for each object that a document reaches, except below those for which visit
// returns false. For a document of another format, it visits only the document.
func Trace(ctx context.Context, objects segno.Objects, d *segno.Document, visit func(segno.Hash) bool) error {
	if d == nil || !visit(d.Data) || d.Type != Format {
		return nil
	}
	doc, err := readDocument(ctx, objects, d)
	if err != nil {
		return err
	}
	for i := range doc.Databases {
		err = errors.Join(err, traceSaved(ctx, objects, doc.Databases[i].Content, visit))
	}
	return err
}

// traceSaved visits the content of a database.
func traceSaved(ctx context.Context, objects segno.Objects, content segno.Hash, visit func(segno.Hash) bool) error {
	if content.IsZero() || !visit(content) {
		return nil
	}
	state, err := readPgState(ctx, objects, content)
	if err != nil {
		return err
	}
	texts := []segno.Hash{content}
	if state != nil {
		texts = state.texts()
	}
	for _, t := range texts {
		err = errors.Join(err, traceList(ctx, objects, t, t == content, visit))
	}
	return err
}

// Statements returns the databases of a document whose state contains statements, which a move executes, as the changes that
// write them.
func Statements(ctx context.Context, objects segno.Objects, d *segno.Document) (list []segno.Change, err error) {
	doc, err := readDocument(ctx, objects, d)
	if err != nil {
		return nil, err
	}
	for i := range doc.Databases {
		s := &doc.Databases[i]
		state, err := readPgState(ctx, objects, s.Content)
		if err != nil {
			return nil, err
		}
		if state != nil {
			list = append(list, segno.Change{Path: segno.DatabasePath(s.Name), To: s.entity()})
		}
	}
	return list, nil
}

// traceList visits the groups and the parts of a list. visited is set if the list itself was
// already visited.
func traceList(ctx context.Context, objects segno.Objects, name segno.Hash, visited bool, visit func(segno.Hash) bool) error {
	if name.IsZero() || !visited && !visit(name) {
		return nil
	}
	groups, err := readHashes(ctx, objects, name)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !visit(g) {
			continue
		}
		parts, partsErr := readHashes(ctx, objects, g)
		err = errors.Join(err, partsErr)
		for _, p := range parts {
			visit(p)
		}
	}
	return err
}
