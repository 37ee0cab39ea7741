package agent

import (
	"context"

	"github.com/dalsegno/segno"
)

// placeFiles puts the workspace tier into a commit that begins a thread.
func (r *run) placeFiles(ctx context.Context, c *segno.Commit) error { return nil }

// saveFiles saves the workspace where a run ends in mid-turn.
func (r *run) saveFiles(ctx context.Context) error { return nil }

// moveFiles moves the thread with its files.
func (r *run) moveFiles(ctx context.Context, ask segno.Ask) ([]segno.Conflict, error) {
	return nil, nil
}
