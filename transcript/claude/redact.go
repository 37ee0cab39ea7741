package claude

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// FilterSidecars returns the list of sidecars that a position names without those whose path keep
// returns false for, or nil if none is left. The paths begin with the name of a directory:
// file-history, session, session-env or tasks. Errors have the kinds of a Cut.
func FilterSidecars(ctx context.Context, o segno.Objects, sidecars segno.Hash, keep func(path string) bool) ([]byte, error) {
	list, err := getSidecars(ctx, o, sidecars)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s sidecar) bool { return !keep(s.path) })
	if len(list) == 0 {
		return nil, nil
	}
	return encodeSidecars(list), nil
}
