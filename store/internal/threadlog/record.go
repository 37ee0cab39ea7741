package threadlog

import "github.com/dalsegno/segno"

// Record is one record of a log without its entries. store/file writes it as JSON.
type Record struct {
	N      int64         `json:"n"`
	Format int           `json:"format,omitempty"`
	Order  int64         `json:"order"`
	Commit *CommitRecord `json:"commit,omitempty"`
	Digest segno.Hash    `json:"digest,omitzero"`
	Head   *HeadRecord   `json:"head,omitempty"`
	Turn   int           `json:"turn,omitempty"` // turn of the commit, see [ledger.Turn]
	Lease  *segno.Lease  `json:"lease,omitempty"`
	Hidden bool          `json:"hidden,omitempty"`

	Workspace *segno.WorkspaceRecord `json:"workspace,omitempty"` // the only record of a separate file, never in a log
}

// The additional fields of these types hide fields of the embedded types from JSON.
type (
	// CommitRecord is a [segno.Commit] without the fields that only its admission needs.
	CommitRecord struct {
		segno.Commit
		Entries    int               `json:"entries,omitempty"` // number of entries
		Checkpoint *CheckpointRecord `json:"checkpoint,omitempty"`
		Expect     *struct{}         `json:"expect,omitempty"`
		Epoch      *struct{}         `json:"epoch,omitempty"`
		Staged     *struct{}         `json:"staged,omitempty"`
	}

	// CheckpointRecord is a [segno.Checkpoint] without the fields that the commit already contains.
	CheckpointRecord struct {
		segno.Checkpoint
		ID     *struct{} `json:"id,omitempty"`
		Thread *struct{} `json:"thread,omitempty"`
		Parent *struct{} `json:"parent,omitempty"`
		Seq    *struct{} `json:"seq,omitempty"`
	}

	// HeadRecord is a [segno.Head] without the fields that the commits already contain, with a
	// phase.
	HeadRecord struct {
		segno.Head
		Thread *struct{}   `json:"thread,omitempty"`
		Link   *struct{}   `json:"link,omitempty"`
		Phase  segno.Phase `json:"phase,omitempty"` // missing in records of older versions
	}
)
