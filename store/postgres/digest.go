package postgres

import "github.com/dalsegno/segno"

// digestOf stands for a name of any length in an index.
func digestOf(name string) []byte {
	h := segno.HashOf([]byte(name))
	return h[:16]
}

// short is digestOf, and NULL for no name.
func short(name string) []byte {
	if name == "" {
		return nil
	}
	return digestOf(name)
}
