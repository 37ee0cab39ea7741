package pack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// threadInfo is the content of thread.json.
type threadInfo struct {
	ID      segno.ThreadID `json:"id"`
	Created time.Time      `json:"created"`
	Title   string         `json:"title,omitempty"`
	Agent   string         `json:"agent,omitempty"`
	Head    segno.CommitID `json:"head"`
	Tip     segno.CommitID `json:"tip"`
	Pins    []segno.Pin    `json:"pins,omitempty"`
}

// node is one line of commits.jsonl. The checkpoint's fields that a store fills in are empty.
type node struct {
	ID         segno.CommitID    `json:"id"`
	Parent     segno.CommitID    `json:"parent,omitempty"`
	Checkpoint *segno.Checkpoint `json:"checkpoint,omitempty"`
	Entries    []entry           `json:"entries,omitempty"`
}

// entry is a [segno.Entry]. Raw has the body if encoding would change its bytes.
type entry struct {
	segno.Entry
	Raw []byte `json:"raw,omitempty"`
}

const (
	threadFile  = "thread.json"
	commitsFile = "commits.jsonl"
	objectsDir  = "objects"

	// maxLine is the size limit of a commit in an archive, because a reader keeps a commit in
	// memory.
	maxLine = 64 << 20
	// maxObject is the size limit of an object, for the same reason. Objects with contents of
	// workspaces have at most 64 MiB.
	maxObject = 256 << 20
	maxInfo   = 1 << 20
)

// objectPath returns the name of an object's file.
func objectPath(name segno.Hash) string {
	text := name.String()
	return objectsDir + "/" + text[:2] + "/" + text
}

// packEntry converts an entry to its form in a line.
func packEntry(e segno.Entry) entry {
	out := entry{Entry: e}
	if len(e.Body) > 0 && !isCompact(e.Body) {
		out.Body, out.Raw = nil, e.Body
	}
	return out
}

func (e *entry) unpack() segno.Entry {
	out := e.Entry
	if e.Raw != nil {
		out.Body = e.Raw
	}
	return out
}

// isCompact reports whether JSON keeps its bytes when it is encoded as a part of a line.
func isCompact(body []byte) bool {
	var b bytes.Buffer
	return utf8.Valid(body) && json.Compact(&b, body) == nil && bytes.Equal(b.Bytes(), body)
}

// encodeLine returns v as JSON on one line. Encoding replaces invalid UTF-8. encodeLine then
// encodes the decoded value again, so that decoding and encoding the line gives the same line.
func encodeLine[T any](v *T) ([]byte, error) {
	first, err := marshalLine(v)
	if err != nil || !bytes.Contains(first, []byte(`\ufffd`)) {
		return first, err
	}
	again := new(T)
	if err := json.Unmarshal(first, again); err != nil {
		return nil, err
	}
	return marshalLine(again)
}

func marshalLine(v any) ([]byte, error) {
	data, err := segno.Encode(v)
	return append(data, '\n'), err
}

// decodeLine decodes a line that encodeLine wrote. It returns an error for any other encoding of
// the same value.
func decodeLine[T any](line []byte) (*T, error) {
	v := new(T)
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return nil, err
	}
	again, err := marshalLine(v)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, line) {
		return nil, errors.New("it is not in the form in which archives are written")
	}
	return v, nil
}

// commit returns the commit that makes n part of a thread. id maps the ids of the archive, and ws
// is the thread's workspace, or "".
func (n *node) commit(thread segno.ThreadID, id func(segno.CommitID) segno.CommitID, ws segno.WorkspaceID) segno.Commit {
	c := segno.Commit{ID: id(n.ID), Thread: thread, Parent: id(n.Parent), Checkpoint: n.Checkpoint}
	for i := range n.Entries {
		c.Entries = append(c.Entries, n.Entries[i].unpack())
	}
	if cp := c.Checkpoint; cp != nil {
		cp.Amends = id(cp.Amends)
		if cp.Workspace != nil {
			cp.Workspace.Workspace = ws
		}
	}
	return c
}

// check checks the fields of n that can be checked without the other commits.
func (n *node) check() error {
	if err := segno.CheckID("read commit", string(n.ID)); err != nil || n.ID == segno.Self {
		return fmt.Errorf("%q is not an id", n.ID)
	}
	if n.Checkpoint == nil && len(n.Entries) == 0 {
		return errors.New("it has neither a checkpoint nor entries")
	}
	for i := range n.Entries {
		if e := &n.Entries[i]; len(e.Raw) > 0 && (e.Body != nil || isCompact(e.Raw)) {
			return fmt.Errorf("entry %d has two bodies", i+1)
		}
	}
	if n.Checkpoint == nil {
		return nil
	}
	if !n.Checkpoint.Points.IsZero() {
		return errors.New("its checkpoint has points inside the turn")
	}
	return checkCheckpoint(n.Checkpoint)
}

// checkCheckpoint checks the fields of a checkpoint that can be checked without its commit.
func checkCheckpoint(cp *segno.Checkpoint) error {
	switch {
	case cp.ID != "" || cp.Thread != "" || cp.Parent != "" || cp.Seq != 0 || len(cp.Members) > 0:
		return errors.New("its checkpoint names its place in a store")
	case !slices.Contains(kinds(), cp.Kind):
		return fmt.Errorf("%q is not a kind of checkpoint", cp.Kind)
	case cp.Turn < 0 || cp.Turn > maxTurn || cp.Step < 0 || cp.Step > maxTurn:
		return fmt.Errorf("turn %d, step %d cannot be", cp.Turn, cp.Step)
	case cp.Workspace != nil && (cp.Workspace.Workspace != "" || cp.Workspace.Tree.IsZero() || len(cp.Workspace.Unread)+len(cp.Workspace.Held) > 0):
		return errors.New("its snapshot names a workspace, no tree or paths of a machine")
	}
	return checkPosition(cp.Session)
}

const maxTurn = 1 << 30

func kinds() []segno.CheckpointKind {
	return []segno.CheckpointKind{segno.CheckpointBase, segno.CheckpointTurn, segno.CheckpointStep, segno.CheckpointExternal,
		segno.CheckpointSave, segno.CheckpointRestore, segno.CheckpointCut}
}

// checkPosition checks a position in an archive. A position must not name a file, because another
// machine reads it.
func checkPosition(p *segno.Position) error {
	switch {
	case p == nil:
		return nil
	case backendOf(p.Agent) == nil:
		return fmt.Errorf("it has a session of %q, which archives cannot have", p.Agent)
	case !isSession(p.Session):
		return fmt.Errorf("%q is not the id of a session", p.Session)
	case p.Path != "" || len(p.Digest) > 0:
		return errors.New("its session names a file")
	case p.Offset < 0 || (p.Leaf == "") != p.Log.IsZero() || p.Leaf != "" && (p.Offset == 0 || p.SHA256.IsZero()):
		return errors.New("its session has no bytes")
	}
	return nil
}

// A lineReader reads commits.jsonl.
type lineReader struct {
	from *bufio.Reader
	n    int
	buf  []byte
}

// next returns the next commit, or [io.EOF].
func (l *lineReader) next() (*node, error) {
	l.n++
	err := l.read()
	if errors.Is(err, io.EOF) && len(l.buf) == 0 {
		return nil, io.EOF
	}
	var n *node
	if err == nil {
		n, err = decodeLine[node](l.buf)
	}
	if err == nil {
		err = n.check()
	}
	if errors.Is(err, io.EOF) { // the line, or its JSON document, is truncated
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", commitsFile, l.n, err)
	}
	return n, nil
}

// read reads the next line, including its newline.
func (l *lineReader) read() error {
	l.buf = l.buf[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		switch {
		case len(l.buf) > maxLine:
			return fmt.Errorf("the line is longer than %d bytes", maxLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
