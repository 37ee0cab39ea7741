package transfercmd

import (
	"context"
	"maps"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transfer/arrivals"
	"github.com/dalsegno/segno/workspace"
)

// checkTrust refuses the changes of a pull if one of them writes or deletes a file that needs trust. It refuses all files: without
// these, the next turn would record them as deleted, and a push would delete them on the server. before and after are the trees
// that the changes lead from and to; before is zero for a new directory.
func (p *puller) checkTrust(ctx context.Context, changes []segno.Change, before, after segno.Hash) error {
	if p.trust {
		return nil
	}
	was, err := workspace.Diff(ctx, p.store.Objects(), segno.Hash{}, before)
	if err != nil {
		return err
	}
	will, err := workspace.Diff(ctx, p.store.Objects(), segno.Hash{}, after)
	if err != nil {
		return err
	}
	links := arrivals.LinksOf(was) // those that stay; a link may also be the user's
	maps.Copy(links, arrivals.LinksOf(will))
	found := refused(changes, arrivals.NewRule(links, arrivals.NamesOf(will)), arrivals.NewRule(links, arrivals.NamesOf(was)))
	if len(found) == 0 {
		return nil
	}
	return p.refuse(found)
}

// refused returns the paths of the changes that write a file which needs trust, or that delete one: the settings of an agent may
// also forbid something.
func refused(changes []segno.Change, write, remove *arrivals.Rule) (found []string) {
	for _, c := range changes {
		rule, e := write, c.To
		if e.Type == segno.EntityNone {
			rule, e = remove, c.From
			e.Mode &^= timeline.SetIDs
		}
		if needs, _ := rule.Needs(c.Path, e); needs {
			found = append(found, c.Path)
		}
	}
	return found
}

// refuse returns the error for files that need trust.
func (p *puller) refuse(paths []string) error {
	return timeline.RefuseUntrusted("pull", p.thread, paths).WithHint("pull with --trust if you trust every machine that wrote the thread")
}
