package postgres

import "context"

func commitForEver(ctx context.Context, url, schema string) error { return nil }
