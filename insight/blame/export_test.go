package blame

import "github.com/dalsegno/segno/internal/local"

// CacheFiles is the place of a cache.
type CacheFiles = local.SearchFiles

// CacheIn opens the cache with a name.
func CacheIn(f CacheFiles, name string) *Cache {
	c := &Cache{files: f, name: name}
	c.read()
	return c
}
