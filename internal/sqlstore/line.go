package sqlstore

import (
	"errors"
	"runtime"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Node is a commit of a line as its row holds it.
type Node struct {
	segno.Node           // without checkpoint and entries
	Row, Depth int64     // the commit's number, and how many ancestors it has
	IsRoot     bool      // its row names no parent
	Body       *string   // the name of its entries' body, if they are outside of the row
	Records    [2][]byte // checkpoint and entries: packed, or as records if isOpen
	isOpen     bool
}

// The indexes of [Node.Records].
const (
	Checkpoint = iota
	Entries
)

var parts = [...]string{"checkpoint", "entries"}

// Arrange sorts the nodes of a line by depth and verifies that the line ends at a commit, has no gap, and
// reaches its root unless a window cuts it. A node without the id of its parent gets it from the node before it.
// Then Arrange unpacks the records.
func (r *Records) Arrange(at segno.CommitID, last int, nodes []Node) ([]Node, error) {
	corrupt := func(name segno.CommitID, text string) ([]Node, error) {
		return nil, r.Corrupt("load", string(name), errors.New(text))
	}
	nodes, ok := byDepth(nodes)
	if !ok {
		return corrupt(at, "the line has a gap")
	}
	for i := 1; i < len(nodes); i++ {
		n, up := &nodes[i], &nodes[i-1]
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
	return nodes, r.open(nodes)
}

// byDepth sorts nodes by depth. A query returns the segments of a line in any order, but most lines have one
// segment, which is sorted already. ok is false if a depth is missing or occurs twice.
func byDepth(nodes []Node) (sorted []Node, ok bool) {
	low, isSorted := nodes[0].Depth, true
	for i := range nodes {
		low = min(low, nodes[i].Depth)
		isSorted = isSorted && nodes[i].Depth == nodes[0].Depth+int64(i)
	}
	if isSorted {
		return nodes, true
	}
	sorted = make([]Node, len(nodes))
	for i := range nodes {
		at := nodes[i].Depth - low
		if at >= int64(len(nodes)) || sorted[at].ID != "" {
			return nil, false
		}
		sorted[at] = nodes[i]
	}
	return sorted, true
}

// open unpacks the records of nodes, on all processors: that is most of the time of loading a long line.
func (r *Records) open(nodes []Node) error {
	return inParallel(nodes, func(share []Node, _ int) error {
		for i := range share {
			if err := r.openNode(&share[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Records) openNode(n *Node) error {
	if n.isOpen {
		return nil
	}
	for part := range n.Records {
		rec, err := r.unpack(n.Records[part], parts[part], n.Node)
		if err != nil {
			return r.Corrupt("read "+parts[part], string(n.ID), err)
		}
		n.Records[part] = rec
	}
	n.isOpen = true
	return nil
}

// DecodeOne returns one node, with its entries.
func (r *Records) DecodeOne(n Node) (decoded segno.Node, err error) {
	if err = r.openNode(&n); err == nil {
		err = r.decodeNode(&n, &decoded, n.Records[Entries], true)
	}
	return decoded, err
}

// Decode returns open nodes as a line, with entries if entries is true. The bodies of entries are copies if
// isShared is true; otherwise they alias the records.
func (r *Records) Decode(nodes []Node, entries, isShared bool) (*segno.Line, error) {
	line := &segno.Line{Commits: make([]segno.Node, len(nodes))}
	return line, inParallel(nodes, func(share []Node, from int) error {
		var copies []byte // one allocation for the share
		if isShared {
			size := 0
			for i := range share {
				size += len(share[i].Records[Entries])
			}
			copies = make([]byte, 0, size)
		}
		for i := range share {
			rec := share[i].Records[Entries]
			if isShared && rec != nil {
				at := len(copies)
				copies = append(copies, rec...)
				rec = copies[at:]
			}
			if err := r.decodeNode(&share[i], &line.Commits[from+i], rec, entries); err != nil {
				return err
			}
		}
		return nil
	})
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
		to.Entries = nil // they were decoded only to verify them
	}
	return r.Corrupt("read entries", string(n.ID), err)
}

// verify checks that an open node has both of its records. Each record says whether the commit has the
// other one, and each commit has at least one. entries says whether entries were read.
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

// inParallel calls do for shares of nodes, on all processors. from is the index of the share's first node.
func inParallel(nodes []Node, do func(share []Node, from int) error) error {
	const size = 64
	if len(nodes) <= size {
		return do(nodes, 0)
	}
	var group sync.WaitGroup
	errs := make([]error, (len(nodes)+size-1)/size)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = do(nodes[i*size:min(len(nodes), (i+1)*size)], i*size)
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
