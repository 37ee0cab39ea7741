package claude

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// FilterSidecars returns the list of a position's sidecars for whose path keep returns true, or nil
// if none is left. The paths begin with the name of a directory: file-history, session, session-env
// or tasks. Errors have the kinds of a Cut.
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
