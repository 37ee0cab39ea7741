package record

import (
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// A checkpoint's record does not repeat its id, thread, parent and seq, which the row contains.

// EncodeCheckpoint encodes a checkpoint. entries is true if its commit has entries.
func EncodeCheckpoint(c *segno.Checkpoint, entries bool) ([]byte, error) {
	var e encoder
	e.hasOther = entries
	e.text(1, string(c.Kind))
	e.number(2, int64(c.Turn))
	if err := e.time(3, c.Time); err != nil {
		return nil, err
	}
	e.text(4, c.Agent)
	e.text(5, c.Prompt)
	e.text(6, c.Label)
	e.text(7, string(c.Key))
	e.flag(8, c.Interrupted)
	e.flag(9, c.Shared)
	e.text(10, string(c.Amends))
	e.number(11, int64(c.Files.Added))
	e.number(12, int64(c.Files.Modified))
	e.number(13, int64(c.Files.Deleted))
	e.number(14, int64(c.Shell))
	if c.Session != nil {
		e.part(15, encodePosition(c.Session))
	}
	if c.Workspace != nil {
		e.part(16, encodeSnapshot(c.Workspace))
	}
	if c.State != nil {
		e.part(17, encodeDocument(c.State))
	}
	if c.World != nil {
		e.part(18, encodeDocument(c.World))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Members)) {
		e.part(19, encodePair(name, string(c.Members[name])))
	}
	e.number(20, int64(c.Step))
	for _, key := range slices.Sorted(maps.Keys(c.Meta)) {
		e.part(21, encodePair(key, c.Meta[key]))
	}
	e.number(22, int64(c.Files.Protected))
	return e.record(), nil
}

func DecodeCheckpoint(record []byte) (*segno.Checkpoint, error) {
	c := new(segno.Checkpoint)
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			c.Kind = segno.CheckpointKind(d.text())
		case 2:
			c.Turn = int(d.number)
		case 3:
			c.Time = d.time()
		case 4:
			c.Agent = d.text()
		case 5:
			c.Prompt = d.text()
		case 6:
			c.Label = d.text()
		case 7:
			c.Key = segno.TurnKey(d.text())
		case 8:
			c.Interrupted = d.flag()
		case 9:
			c.Shared = d.flag()
		case 10:
			c.Amends = segno.CommitID(d.text())
		case 11:
			c.Files.Added = int(d.number)
		case 12:
			c.Files.Modified = int(d.number)
		case 13:
			c.Files.Deleted = int(d.number)
		case 14:
			c.Shell = int(d.number)
		default:
			decodeTier(c, &d)
		}
	}
	return c, d.err
}

func decodeTier(c *segno.Checkpoint, d *decoder) {
	switch d.tag {
	case 15:
		c.Session = decodePosition(d)
	case 16:
		c.Workspace = decodeSnapshot(d)
	case 17:
		c.State = decodeDocument(d)
	case 18:
		c.World = decodeDocument(d)
	case 19:
		if c.Members == nil {
			c.Members = map[string]segno.CommitID{}
		}
		name, id := decodePair(d)
		c.Members[name] = segno.CommitID(id)
	case 20:
		c.Step = int(d.number)
	case 21:
		if c.Meta == nil {
			c.Meta = map[string]string{}
		}
		key, value := decodePair(d)
		c.Meta[key] = value
	case 22:
		c.Files.Protected = int(d.number)
	}
}

func encodePair(key, value string) []byte {
	var p encoder
	p.text(1, key)
	p.text(2, value)
	return p.b
}

func decodePair(outer *decoder) (key, value string) {
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			key = d.text()
		case 2:
			value = d.text()
		}
	}
	outer.within(d)
	return key, value
}

// within copies the error of a part's decoder.
func (d *decoder) within(part decoder) {
	if part.err != nil {
		d.err = part.err
	}
}

func encodePosition(p *segno.Position) []byte {
	var e encoder
	e.text(1, p.Agent)
	e.text(2, string(p.Session))
	e.text(3, p.Dir)
	e.text(4, p.Path)
	e.text(5, p.Leaf)
	e.number(6, p.Offset)
	e.hash(7, p.SHA256)
	e.bytes(8, p.Digest)
	e.hash(9, p.Log)
	e.hash(10, p.Sidecars)
	e.text(11, p.Version)
	return e.b
}

func decodePosition(outer *decoder) *segno.Position {
	p := new(segno.Position)
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			p.Agent = d.text()
		case 2:
			p.Session = segno.SessionID(d.text())
		case 3:
			p.Dir = d.text()
		case 4:
			p.Path = d.text()
		case 5:
			p.Leaf = d.text()
		case 6:
			p.Offset = d.number
		case 7:
			p.SHA256 = d.hash()
		case 8:
			p.Digest = d.clone()
		case 9:
			p.Log = d.hash()
		case 10:
			p.Sidecars = d.hash()
		case 11:
			p.Version = d.text()
		}
	}
	outer.within(d)
	return p
}

func encodeSnapshot(s *segno.Snapshot) []byte {
	var e encoder
	e.text(1, string(s.Workspace))
	e.text(2, s.Root)
	e.hash(3, s.Tree)
	e.hash(4, s.Times)
	e.number(5, int64(s.Files))
	e.number(6, s.Bytes)
	for _, path := range s.Unread {
		e.part(7, []byte(path))
	}
	if s.Git != nil {
		var g encoder
		g.text(1, s.Git.Head)
		g.text(2, s.Git.Branch)
		g.text(3, s.Git.Operation)
		e.part(8, g.b)
	}
	for _, path := range s.Held {
		e.part(9, []byte(path))
	}
	return e.b
}

func decodeSnapshot(outer *decoder) *segno.Snapshot {
	s := new(segno.Snapshot)
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			s.Workspace = segno.WorkspaceID(d.text())
		case 2:
			s.Root = d.text()
		case 3:
			s.Tree = d.hash()
		case 4:
			s.Times = d.hash()
		case 5:
			s.Files = int(d.number)
		case 6:
			s.Bytes = d.number
		case 7:
			s.Unread = append(s.Unread, d.text())
		case 8:
			s.Git = decodeGit(&d)
		case 9:
			s.Held = append(s.Held, d.text())
		}
	}
	outer.within(d)
	return s
}

func decodeGit(outer *decoder) *segno.Git {
	g := new(segno.Git)
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			g.Head = d.text()
		case 2:
			g.Branch = d.text()
		case 3:
			g.Operation = d.text()
		}
	}
	outer.within(d)
	return g
}

func encodeDocument(doc *segno.Document) []byte {
	var e encoder
	e.text(1, doc.Type)
	e.hash(2, doc.Data)
	return e.b
}

func decodeDocument(outer *decoder) *segno.Document {
	doc := new(segno.Document)
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			doc.Type = d.text()
		case 2:
			doc.Data = d.hash()
		}
	}
	outer.within(d)
	return doc
}
