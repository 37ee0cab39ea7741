package record

import "github.com/dalsegno/segno"

// This file has the records of threads, links, operations and workspaces.

func EncodeThread(t *segno.Thread) ([]byte, error) {
	var e encoder
	if err := e.time(1, t.Created); err != nil {
		return nil, err
	}
	e.text(2, t.Title)
	e.text(3, t.Agent)
	e.text(4, string(t.Workspace))
	e.text(5, string(t.Parent))
	e.text(6, string(t.ParentThread))
	e.text(7, t.Name)
	return e.record(), nil
}

func DecodeThread(id segno.ThreadID, record []byte) (segno.Thread, error) {
	t := segno.Thread{ID: id}
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			t.Created = d.time()
		case 2:
			t.Title = d.text()
		case 3:
			t.Agent = d.text()
		case 4:
			t.Workspace = segno.WorkspaceID(d.text())
		case 5:
			t.Parent = segno.CommitID(d.text())
		case 6:
			t.ParentThread = segno.ThreadID(d.text())
		case 7:
			t.Name = d.text()
		}
	}
	return t, d.err
}

func EncodeLink(l *segno.Link) ([]byte, error) {
	var e encoder
	e.text(1, l.Agent)
	e.text(2, string(l.Session))
	e.text(3, l.Dir)
	e.text(4, l.Path)
	if err := e.time(5, l.Start); err != nil {
		return nil, err
	}
	if err := e.time(6, l.End); err != nil {
		return nil, err
	}
	e.text(7, l.Reason)
	e.text(8, string(l.Fidelity))
	e.text(9, string(l.At))
	e.text(10, l.Note)
	if l.Position != nil {
		e.part(11, encodePosition(l.Position))
	}
	e.flag(12, l.Detached)
	return e.record(), nil
}

func DecodeLink(record []byte) (l segno.Link, err error) {
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			l.Agent = d.text()
		case 2:
			l.Session = segno.SessionID(d.text())
		case 3:
			l.Dir = d.text()
		case 4:
			l.Path = d.text()
		case 5:
			l.Start = d.time()
		case 6:
			l.End = d.time()
		case 7:
			l.Reason = d.text()
		case 8:
			l.Fidelity = segno.Fidelity(d.text())
		case 9:
			l.At = segno.CommitID(d.text())
		case 10:
			l.Note = d.text()
		case 11:
			l.Position = decodePosition(&d)
		case 12:
			l.Detached = d.flag()
		}
	}
	return l, d.err
}

func EncodeOperation(o *segno.Operation) ([]byte, error) {
	var e encoder
	e.text(1, string(o.Thread))
	e.text(2, string(o.Verb))
	e.text(3, o.Args)
	if err := e.time(4, o.Time); err != nil {
		return nil, err
	}
	e.part(5, encodePointers(o.Before))
	e.part(6, encodePointers(o.After))
	e.text(7, string(o.Undoes))
	if o.Pin != nil {
		var p encoder
		p.text(1, string(o.Pin.Checkpoint))
		p.text(2, o.Pin.Name)
		e.part(8, p.b)
	}
	e.text(9, o.Unpinned)
	e.text(10, string(o.Forked))
	return e.record(), nil
}

func DecodeOperation(id segno.OperationID, workspace segno.WorkspaceID, record []byte) (segno.Operation, error) {
	o := segno.Operation{ID: id, Workspace: workspace}
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			o.Thread = segno.ThreadID(d.text())
		case 2:
			o.Verb = segno.Verb(d.text())
		case 3:
			o.Args = d.text()
		case 4:
			o.Time = d.time()
		case 5:
			o.Before = decodePointers(&d)
		case 6:
			o.After = decodePointers(&d)
		case 7:
			o.Undoes = segno.OperationID(d.text())
		case 8:
			o.Pin = decodePin(&d)
		case 9:
			o.Unpinned = d.text()
		case 10:
			o.Forked = segno.ThreadID(d.text())
		}
	}
	return o, d.err
}

func decodePin(outer *decoder) *segno.Pin {
	p := new(segno.Pin)
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			p.Checkpoint = segno.CommitID(d.text())
		case 2:
			p.Name = d.text()
		}
	}
	outer.within(d)
	return p
}

func encodePointers(s segno.Pointers) []byte {
	var e encoder
	e.text(1, string(s.Head))
	e.text(2, string(s.Tip))
	e.text(3, string(s.Session))
	e.hash(4, s.Tree)
	return e.b
}

func decodePointers(outer *decoder) (s segno.Pointers) {
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			s.Head = segno.CommitID(d.text())
		case 2:
			s.Tip = segno.CommitID(d.text())
		case 3:
			s.Session = segno.SessionID(d.text())
		case 4:
			s.Tree = d.hash()
		}
	}
	outer.within(d)
	return s
}

func EncodeWorkspace(w *segno.WorkspaceRecord) ([]byte, error) {
	var e encoder
	if err := e.time(1, w.Created); err != nil {
		return nil, err
	}
	e.text(2, w.Path)
	for _, path := range w.Moved {
		e.part(3, []byte(path))
	}
	e.number(4, int64(w.Device))
	e.number(5, int64(w.Inode))
	return e.record(), nil
}

func DecodeWorkspace(id segno.WorkspaceID, record []byte) (segno.WorkspaceRecord, error) {
	w := segno.WorkspaceRecord{ID: id}
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			w.Created = d.time()
		case 2:
			w.Path = d.text()
		case 3:
			w.Moved = append(w.Moved, d.text())
		case 4:
			w.Device = uint64(d.number)
		case 5:
			w.Inode = uint64(d.number)
		}
	}
	return w, d.err
}

func EncodeState(s *segno.WorkspaceState) ([]byte, error) {
	var e encoder
	e.text(1, string(s.Thread))
	if s.Snapshot != nil {
		e.part(2, encodeSnapshot(s.Snapshot))
	}
	e.text(3, string(s.By))
	if err := e.time(4, s.Time); err != nil {
		return nil, err
	}
	return e.record(), nil
}

func DecodeState(id segno.WorkspaceID, record []byte) (segno.WorkspaceState, error) {
	s := segno.WorkspaceState{Workspace: id}
	d := decodeChecked(record)
	for d.next() {
		switch d.tag {
		case 1:
			s.Thread = segno.ThreadID(d.text())
		case 2:
			s.Snapshot = decodeSnapshot(&d)
		case 3:
			s.By = segno.CommitID(d.text())
		case 4:
			s.Time = d.time()
		}
	}
	return s, d.err
}

// JoinWorkspace decodes a workspace's record and, if there is one, the record of its state.
func JoinWorkspace(id segno.WorkspaceID, record, state []byte) (segno.WorkspaceRecord, error) {
	w, err := DecodeWorkspace(id, record)
	if err == nil && state != nil {
		w.State, err = DecodeState(id, state)
	}
	return w, err
}
