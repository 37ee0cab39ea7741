package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dalsegno/segno"
)

// statBar is how many signs the longest bar of diff --stat has.
const statBar = 40

// writeStat writes for each file how many of its lines changed, as git does.
func (a *app) writeStat(ctx context.Context, w io.Writer, d *openWorkspace, changes []segno.Change) error {
	var names []string
	var patches []*patch
	var width, most, added, deleted int
	for _, c := range changes {
		p, err := patchOf(ctx, d, c, false)
		if err != nil {
			return err
		}
		if c.From.Type == segno.EntityDir || c.From.Type == segno.EntityNone && c.To.Type == segno.EntityDir {
			continue
		}
		p.text = "" // the counts are enough
		names, patches = append(names, quotePath(c.Path)), append(patches, p)
		width, most = max(width, visible(quotePath(c.Path))), max(most, p.added+p.deleted)
		added, deleted = added+p.added, deleted+p.deleted
	}
	paint := a.paint(w)
	scaled := func(n int) int {
		if most <= statBar {
			return n
		}
		return (n*statBar + most - 1) / most
	}
	for i, p := range patches {
		what := paint.added(strings.Repeat("+", scaled(p.added))) + paint.gone(strings.Repeat("-", scaled(p.deleted)))
		if p.binary {
			what = "binary"
		}
		if _, err := fmt.Fprintf(w, " %s | %*d %s\n", pad(names[i], width), len(fmt.Sprint(most)), p.added+p.deleted, what); err != nil {
			return err
		}
	}
	if len(patches) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, " %s changed, %s(+), %s(-)\n", files(len(patches)), plural(added, "insertion"), plural(deleted, "deletion"))
	return err
}
