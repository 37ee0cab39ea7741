package timeline

import (
	"context"

	"github.com/dalsegno/segno"
)

// setGitCommand notes in a plan how the user moves git's HEAD to its position at the snapshot that the files
// come from. segno writes files and never changes the repository.
func (tx *txn) setGitCommand(ctx context.Context, p *Plan) {
	if p.gitThen != nil {
		p.Git = tx.Workspace.GitCommand(ctx, *p.gitThen, entities(p.Steps), func(h segno.Hash) ([]byte, error) {
			return tx.Store.Objects().Get(ctx, h)
		})
	}
}
