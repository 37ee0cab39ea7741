package reachable

import (
	"context"

	"github.com/dalsegno/segno"
)

// maxCollected is how often [Missing] asks again because an object was collected meanwhile.
const maxCollected = 10

// Missing returns those of the named objects that a store lacks, and keeps the others like [segno.Objects.Keep]. Without that, a
// collection could drop an old object that nothing reaches yet, while the caller stores the objects and commits that refer to it.
func Missing(ctx context.Context, o segno.Objects, names []segno.Hash) (missing []segno.Hash, err error) {
	for range maxCollected {
		missing, err = keepFound(ctx, o, names)
		if segno.KindOf(err) != segno.KindNotFound {
			break
		}
	}
	return missing, err
}

func keepFound(ctx context.Context, o segno.Objects, names []segno.Hash) (missing []segno.Hash, err error) {
	batch := o.Batch()
	defer batch.Close()
	for _, name := range names {
		has, err := batch.Has(ctx, name)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, name)
		}
	}
	staged, err := batch.Stage(ctx)
	if err != nil || staged.IsZero() {
		return missing, err
	}
	return missing, o.Keep(ctx, staged)
}
