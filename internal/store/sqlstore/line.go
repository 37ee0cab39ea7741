package sqlstore

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// Node is a commit of a line in the form of its row.
type Node struct {
	segno.Node           // has neither checkpoint nor entries
	Row, Depth int64     // the commit's number, and the number of its ancestors
	IsRoot     bool      // the row names no parent
	Body       *string   // the name of the body with its entries, if they are not in the row
	Records    [2][]byte // checkpoint and entries: packed, or unpacked if isOpen
	isOpen     bool
}

// The indexes of [Node.Records].
const (
	Checkpoint = iota
	Entries
)

var parts = [...]string{"checkpoint", "entries"}

// Arrange sorts the nodes of a line by depth. It verifies that the line ends at a commit, has no gap, and reaches its
// root unless a window truncates it. A node without the id of its parent gets that id from the node before it.
func (r *Records) Arrange(at segno.CommitID, last int, nodes []Node) error {
	corrupt := func(name segno.CommitID, text string) error { return r.Corrupt("load", string(name), errors.New(text)) }
	byDepth := func(a, b Node) int { return cmp.Compare(a.Depth, b.Depth) }
	if !slices.IsSortedFunc(nodes, byDepth) { // a cached line is sorted, and must not be written
		slices.SortFunc(nodes, byDepth)
	}
	for i := 1; i < len(nodes); i++ {
		n, up := &nodes[i], &nodes[i-1]
		if n.Depth != up.Depth+1 {
			return corrupt(at, "the line has a gap")
		}
		if n.Parent == "" && !n.IsRoot {
			n.Parent = up.ID
		}
		if n.Parent != up.ID || n.Thread == up.Thread && n.Seq <= up.Seq {
			return corrupt(n.ID, "it does not follow the commit before it")
		}
	}
	if nodes[len(nodes)-1].ID != at {
		return corrupt(at, "the line does not end there")
	}
	first := &nodes[0]
	if first.IsRoot != (first.Depth == 0) || first.IsRoot != (first.Parent == "") || !first.IsRoot && (last == 0 || len(nodes) < last) {
		return corrupt(at, "the line has no beginning")
	}
	return nil
}

// Decode unpacks the records of nodes and returns the nodes as a line. The line has entries if entries is true. The
// bodies of entries are copies if isShared is true, and otherwise alias the records. Decode uses all processors,
// because loading a long line spends most of its time on unpacking.
func (r *Records) Decode(nodes []Node, entries, isShared bool) (*segno.Line, error) {
	const size = 64
	line := &segno.Line{Commits: make([]segno.Node, len(nodes))}
	var group sync.WaitGroup
	errs := make([]error, (len(nodes)+size-1)/size)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for share := range errs {
		slots <- struct{}{}
		group.Go(func() {
			from, end := share*size, min(len(nodes), (share+1)*size)
			errs[share] = r.decodeShare(nodes[from:end], line.Commits[from:end], entries, isShared)
			<-slots
		})
	}
	group.Wait()
	return line, errors.Join(errs...)
}

// DecodeOne returns one node, with its entries.
func (r *Records) DecodeOne(n Node) (segno.Node, error) {
	var decoded [1]segno.Node
	err := r.decodeShare([]Node{n}, decoded[:], true, false)
	return decoded[0], err
}

func (r *Records) decodeShare(share []Node, to []segno.Node, entries, isShared bool) (err error) {
	size := 0
	for i := range share {
		n := &share[i]
		if !n.isOpen { // an open node may be in the cache, and must not be written
			for part := range n.Records {
				if n.Records[part], err = r.unpack(n.Records[part], parts[part], n.Node); err != nil {
					return r.Corrupt("read "+parts[part], string(n.ID), err)
				}
			}
			n.isOpen = true
		}
		size += len(n.Records[Entries])
	}
	var copies []byte // one allocation for all nodes of this goroutine
	if isShared {
		copies = make([]byte, 0, size)
	}
	for i := range share {
		its := share[i].Records[Entries]
		if isShared && its != nil {
			at := len(copies)
			copies = append(copies, its...)
			its = copies[at:]
		}
		if err := r.decodeNode(&share[i], &to[i], its, entries); err != nil {
			return err
		}
	}
	return nil
}

func (r *Records) decodeNode(n *Node, to *segno.Node, its []byte, entries bool) (err error) {
	if err := r.verify(n, entries); err != nil {
		return err
	}
	*to = n.Node
	if to.Checkpoint, err = decodeCheckpoint(n.Records[Checkpoint], n.Node); err != nil {
		return r.Corrupt("read checkpoint", string(n.ID), err)
	}
	if its == nil {
		return nil
	}
	to.Entries, err = record.DecodeEntries(its)
	if !entries {
		to.Entries = nil // decoded only for verification
	}
	return r.Corrupt("read entries", string(n.ID), err)
}

// verify checks that an open node has all its records. Each record contains a flag for the other record, and each
// commit has at least one of the two. entries is set if entries were read.
func (r *Records) verify(n *Node, entries bool) error {
	checkpoint, its := n.Records[Checkpoint], n.Records[Entries]
	switch {
	case checkpoint == nil && (its == nil && (entries || n.Body == nil) || its != nil && record.HasOther(its)):
		return r.Corrupt("read checkpoint", string(n.ID), errors.New("it is missing"))
	case entries && its == nil && record.HasOther(checkpoint):
		return r.Corrupt("read entries", string(n.ID), errors.New("they are missing"))
	}
	return nil
}
