package timeline

import (
	"context"

	"github.com/dalsegno/segno"
)

// setGitCommand sets in a plan the command with which the user moves git's HEAD to its position at the
// snapshot whose files the plan writes. segno writes files but never changes the repository.
func (tx *txn) setGitCommand(ctx context.Context, p *Plan) {
	if p.gitThen != nil {
		p.Git = tx.Workspace.GitCommand(ctx, *p.gitThen, entities(p.Steps), func(h segno.Hash) ([]byte, error) {
			return tx.Store.Objects().Get(ctx, h)
		})
	}
}
