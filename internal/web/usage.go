package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/transcript"
)

// usageResult is what a turn or a thread used.
type usageResult struct {
	Usage   *history.Usage `json:"usage"`   // null if it is not known
	Unknown int            `json:"unknown"` // turns without a recorded number
	Text    string         `json:"text"`    // the usage in one line, "" if it is not known
}

func (u *usageResult) add(parts []transcript.Usage) {
	more := history.NewUsage(parts, nil)
	if more == nil {
		u.Unknown++
	}
	if u.Usage = u.Usage.Add(more); u.Usage != nil {
		u.Text = u.Usage.String()
	}
}

type checkpointUsageParams struct {
	ID segno.CommitID `path:"id" max:"1024"`
}

func (s *Server) getCheckpointUsage(ctx context.Context, p *checkpointUsageParams) (u usageResult, err error) {
	c, err := s.loadCheckpoint(ctx, p.ID)
	if err != nil {
		return u, err
	}
	h, _, err := s.historyOf(ctx, c)
	if err != nil {
		return u, err
	}
	used, err := s.readUsage(ctx, h, []segno.Checkpoint{*c})
	if err == nil {
		u.add(used[c.ID])
	}
	return u, err
}

// getThreadUsage sums the turns of a thread, undone ones too.
func (s *Server) getThreadUsage(ctx context.Context, p *threadParams) (u usageResult, err error) {
	h, err := s.history(ctx, p.ID)
	if err != nil {
		return u, err
	}
	own, used, err := h.ReadOwn(p.ID, func(of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
		return s.readUsage(ctx, h.History, of)
	})
	if err != nil {
		return u, err
	}
	for i := range own {
		u.add(used[own[i].ID])
	}
	return u, nil
}

// maxUsages is the number of checkpoints whose usage the server keeps. It never changes.
const maxUsages = 100_000

// readUsage reads what checkpoints used. A part that is damaged counts as not known.
func (s *Server) readUsage(ctx context.Context, h *history.History, of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
	all := map[segno.CommitID][]transcript.Usage{}
	var missing []segno.Checkpoint
	for i := range of {
		if parts, ok := s.usages.get(of[i].ID); ok {
			all[of[i].ID] = parts
		} else {
			missing = append(missing, of[i])
		}
	}
	if len(missing) == 0 {
		return all, nil
	}
	release, err := acquire(ctx, s.heavy)
	if err != nil {
		return nil, err
	}
	defer release()
	r := history.UsageReader{Source: s.source()}
	used, err := r.Read(ctx, h, missing)
	if kind := segno.KindOf(err); err != nil && kind != segno.KindCorrupt && kind != segno.KindNotFound {
		return nil, err
	}
	for i := range missing {
		id := missing[i].ID
		if all[id] = used[id]; err == nil {
			s.usages.put(id, used[id], 1)
		}
	}
	return all, nil
}
